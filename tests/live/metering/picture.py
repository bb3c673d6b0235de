"""Draw the dashboards of the sample day, for docs/dashboards.md: `python -m tests.live.metering.picture`.

It is not Grafana: it draws the same panels, queries, units and positions, with results of a real Prometheus.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.core.metering.dashboards import DASHBOARDS
from agentenv.core.metering.panel import BYTES, DOLLARS, PART, SECONDS, Dashboard, Panel
from agentenv.core.metering.rule import EVERY
from agentenv.rehearsal.tools import ensure
from agentenv.rehearsal.tools.progress import Lines
from tests.live.metering import day
from tests.live.metering.backfill import fill
from tests.live.metering.conftest import TARIFF
from tests.live.metering.server import PrometheusServer, serving
from tests.live.metering.test_metered_day import AFTERNOON, LAST, chosen

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "pictures"
_WIDE, _INCHES = 24, 16.0
_TALL = {"number": 2, "words": 2}
_STEP = 900


def amount(value: float, unit: str) -> str:
    """Return a value with its unit."""
    if unit == DOLLARS:
        return f"${value:,.2f}" if abs(value) >= 0.1 else f"${value:.4f}"
    if unit == PART:
        return f"{value:.0%}" if abs(value) >= 0.05 else f"{value:.1%}"
    if unit == BYTES:
        return f"{value / day.GIB:.1f} GiB"
    return f"{value * 1000:.0f} ms" if unit == SECONDS else f"{value:,.4g}"


def _name(legend: str, labels: dict[str, str]) -> str:
    for label, value in labels.items():
        legend = legend.replace(f"{{{{{label}}}}}", value)
    return legend


def _series(prometheus: PrometheusServer, panel: Panel) -> list[tuple[str, list[float], list[float]]]:
    found: list[tuple[str, list[float], list[float]]] = []
    for query in panel.queries:
        for series in prometheus.over(chosen(query.expr), day.BEGAN + _STEP, LAST, _STEP):
            hours = [(float(at) - day.BEGAN) / 3600 for at, _ in series["values"]]
            found.append(
                (_name(query.legend, series["metric"]), hours, [float(value) for _, value in series["values"]])
            )
    return found


def _draw(axes: Axes, prometheus: PrometheusServer, panel: Panel) -> None:
    axes.set_title(panel.title, fontsize=9, loc="left", fontweight="bold")
    if panel.kind == "number":
        series = prometheus.at(chosen(panel.queries[0].expr), AFTERNOON)
        axes.text(0.5, 0.45, amount(float(series[0]["value"][1]), panel.unit), ha="center", va="center", fontsize=18)
    elif panel.kind == "words":
        axes.text(0.0, 0.9, panel.why, fontsize=7, wrap=True, va="top")
    elif panel.kind == "ranking":
        rows = prometheus.at(chosen(panel.queries[0].expr), AFTERNOON)
        rows.sort(key=lambda row: -float(row["value"][1]))
        for place, row in enumerate(rows[:8]):
            words = "  ".join(row["metric"].get(column, "") for column in panel.columns)
            axes.text(0.02, 0.88 - place * 0.12, words, fontsize=8)
            axes.text(0.98, 0.88 - place * 0.12, amount(float(row["value"][1]), panel.unit), fontsize=8, ha="right")
    if panel.kind in {"number", "words", "ranking"}:
        axes.set_xticks([])
        axes.set_yticks([])
        return
    _run(axes, _series(prometheus, panel), panel)


def _run(axes: Axes, series: list[tuple[str, list[float], list[float]]], panel: Panel) -> None:
    if panel.kind == "days":
        for name, _, values in series:
            axes.bar(name, values[-1])
    elif panel.kind == "stack":
        hours = sorted({hour for _, at, _ in series for hour in at})
        known = [dict(zip(at, values, strict=True)) for _, at, values in series]
        heights = [[heights_.get(hour, 0.0) for hour in hours] for heights_ in known]
        axes.stackplot(hours, heights, labels=[name for name, _, _ in series], alpha=0.8)
    else:
        for name, at, values in series:
            axes.plot(at, values, label=name, linewidth=1)
    if panel.kind != "days":
        axes.set_xlim(0, 24)
        axes.set_xticks(range(0, 25, 6), [f"{hour:02}:00" for hour in range(0, 25, 6)])
        axes.legend(fontsize=6, loc="upper left", frameon=False, ncols=2)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=6)
    axes.yaxis.set_major_formatter(lambda value, _: amount(value, panel.unit))


def draw(shown: Dashboard, prometheus: PrometheusServer, target: Path) -> None:
    """Draw one dashboard, with its panels at their positions in Grafana."""
    from matplotlib import pyplot

    placed: list[tuple[Panel, int, int, int]] = []
    top = 0
    for section in shown.sections:
        left = tallest = 0
        for panel in section.panels:
            if left + panel.width > _WIDE:
                top, left, tallest = top + tallest, 0, 0
            high = _TALL.get(panel.kind, 4)
            placed.append((panel, top, left, high))
            left, tallest = left + panel.width, max(tallest, high)
        top += tallest
    # Text stays text, and equal numbers give equal files.
    pyplot.rcParams.update({"svg.hashsalt": shown.name, "svg.fonttype": "none", "font.family": "sans-serif"})
    tall = top * 0.62 + 0.6
    figure = pyplot.figure(figsize=(_INCHES, tall))
    figure.suptitle(f"{shown.title}: a day in a real Prometheus", fontsize=11, y=1 - 0.15 / tall)
    grid: Any = figure.add_gridspec(
        top, _WIDE, wspace=4, hspace=1.4, left=0.04, right=0.99, top=1 - 0.6 / tall, bottom=0.02
    )
    for panel, row, column, high in placed:
        _draw(figure.add_subplot(grid[row : row + high, column : column + panel.width]), prometheus, panel)
    figure.savefig(target, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    """Draw all dashboards."""
    import matplotlib

    matplotlib.use("Agg")
    tools = ensure(["prometheus", "promtool"], Lines(sys.stderr))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        data = fill(tools, folder, TARIFF)
        with serving(tools.path("prometheus"), data, folder, EVERY) as prometheus:
            for shown in DASHBOARDS:
                draw(shown, prometheus, FOLDER / f"dashboard-{shown.name}.svg")


if __name__ == "__main__":
    main()
