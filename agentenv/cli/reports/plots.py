"""Plot an estimate: dollars a user and month over the number of users, with a line for each number of active hours.

The plot is a PNG, an SVG, or an HTML page with the plot and its figures, by the extension of the file.
"""

from __future__ import annotations

import contextlib
import html
import io
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError

ENDINGS = (".html", ".png", ".svg")
# Distinct for people with colour blindness; dashes distinguish the lines in print.
COLOURS = ("#0b62a8", "#c2410c", "#0f766e", "#7c3aed", "#854d0e", "#be185d")
DASHES = ("-", "--", "-.", ":")
INK, FAINT = "#1f2933", "#d5dae1"

Points = Sequence[tuple[int, Decimal]]


def plot_estimate(by_hours: Mapping[Decimal, Points], cap: Decimal | None, title: str, file: Path) -> None:
    """Plot dollars a user over users, with a line for each number of active hours, and a line at the cap."""
    ending = file.suffix.lower()
    if ending not in ENDINGS:
        raise CommandError(f"a plot is written as {', '.join(ENDINGS)}; {file.name} ends in none of them")
    if not any(by_hours.values()):
        raise CommandError("there is nothing to plot: there is no number of users")
    if ending == ".html":
        content = _page(by_hours, cap, title, _render(by_hours, cap, title, "svg").decode()).encode()
    else:
        content = _render(by_hours, cap, title, ending[1:])
    write_file(file, content)


def write_file(file: Path, content: bytes) -> None:
    """Replace a file atomically: a reader sees the old content or the new."""
    partial = file.with_name(f".{file.name}.part")
    try:
        partial.write_bytes(content)
        partial.replace(file)
    except OSError as failure:
        raise CommandError(f"{file} cannot be written: {failure.strerror or failure}") from failure
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def pyplot() -> Any:
    """Import Matplotlib without a display. If it is missing, the error names the extra."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise CommandError("plots need matplotlib: pip install 'agent-environment[reports]'") from None
    mpl.use("agg")
    from matplotlib import pyplot as plot

    return plot


def _render(by_hours: Mapping[Decimal, Points], cap: Decimal | None, title: str, form: str) -> bytes:
    plot = pyplot()
    # Reproducible output: no date, and no random ids.
    with plot.rc_context({"svg.hashsalt": "estimate", "svg.fonttype": "path", "font.size": 10}):
        figure, axes = plot.subplots(figsize=(8.2, 4.8), dpi=144)
        for number, (hours, points) in enumerate(sorted(by_hours.items())):
            _line(axes, number, hours, points)
        if cap is not None:
            axes.axhline(float(cap), color=INK, linewidth=1.2, linestyle=(0, (1, 2)))
            axes.annotate(
                f"cap ${cap:.2f}", (0.005, float(cap)), xycoords=("axes fraction", "data"),
                xytext=(2, 4), textcoords="offset points", color=INK,
            )  # fmt: skip
        _style_axes(axes, title)
        stream = io.BytesIO()
        figure.savefig(stream, format=form, bbox_inches="tight", metadata={} if form == "png" else {"Date": None})
        plot.close(figure)
    return stream.getvalue()


def _line(axes: Any, number: int, hours: Decimal, points: Points) -> None:
    ordered = sorted(points)
    colour = COLOURS[number % len(COLOURS)]
    across, up = [users for users, _ in ordered], [float(dollars) for _, dollars in ordered]
    dash = DASHES[number % len(DASHES)]
    axes.plot(across, up, color=colour, linestyle=dash, marker="o", markersize=3.5, linewidth=1.8,
              label=f"{hours.normalize():f} active hours a month")  # fmt: skip
    axes.annotate(f"${up[-1]:.2f}", (across[-1], up[-1]), xytext=(6, -3), textcoords="offset points", color=colour)


def _style_axes(axes: Any, title: str) -> None:
    from matplotlib.ticker import FuncFormatter

    def users(value: float, _: int) -> str:
        return f"{value:,.0f}"

    def money(value: float, _: int) -> str:
        return f"${value:,.2f}" if value < 10 else f"${value:,.0f}"

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(users))
    axes.yaxis.set_major_formatter(FuncFormatter(money))
    axes.yaxis.set_minor_formatter(FuncFormatter(_minor_labels(money)))
    axes.tick_params(which="both", colors=INK, labelsize=8.5)
    axes.grid(which="major", color=FAINT, linewidth=0.8)
    axes.grid(which="minor", axis="y", color=FAINT, linewidth=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel("users", color=INK)
    axes.set_ylabel("dollars a user and month", color=INK)
    axes.set_title(title, color=INK, loc="left", fontsize=12, fontweight="bold")
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)


def _minor_labels(money: Any) -> Any:
    """Return a formatter that labels 2, 3 and 5 between the powers of ten."""

    def labelled(value: float, place: int) -> str:
        digit = f"{value:.0e}"[0]
        return money(value, place) if digit in "235" else ""

    return labelled


def _page(by_hours: Mapping[Decimal, Points], cap: Decimal | None, title: str, drawing: str) -> str:
    """Return an HTML page with the plot and a table of its figures."""
    svg = drawing[drawing.index("<svg") :]
    users = sorted({number for points in by_hours.values() for number, _ in points})
    head = "".join(f"<th>{number:,}</th>" for number in users)
    rows: list[str] = []
    for hours, points in sorted(by_hours.items()):
        by_users = dict(points)
        cells = "".join(_cell(by_users.get(number), cap) for number in users)
        rows.append(f"<tr><th>{hours.normalize():f} h</th>{cells}</tr>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body><main>"
        f'<h1>{html.escape(title)}</h1><div class="drawing">{svg}</div>'
        f"<table><caption>Dollars a user and month; within the cap in bold.</caption>"
        f"<tr><th>active hours a month</th>{head}</tr>{''.join(rows)}</table></main></body></html>\n"
    )


def _cell(dollars: Decimal | None, cap: Decimal | None) -> str:
    if dollars is None:
        return "<td></td>"
    text = f"{dollars:,.2f}"
    return f"<td><b>{text}</b></td>" if cap is not None and dollars <= cap else f"<td>{text}</td>"


_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:0}"
    "main{max-width:60rem;margin:2rem auto;padding:0 1rem}h1{font-size:1.3rem}"
    ".drawing{background:#fff;border-radius:.5rem;padding:.5rem;overflow-x:auto}svg{max-width:100%;height:auto}"
    "table{border-collapse:collapse;margin-top:1rem}caption{text-align:left;opacity:.75}"
    "th,td{padding:.3rem .8rem;text-align:right;border-bottom:1px solid #8884;font-variant-numeric:tabular-nums}"
)
