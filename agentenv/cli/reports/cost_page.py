"""Render the cost report as one self-contained HTML page, with light and dark colours and print styles."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.resources import files
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.cli.reports.charts import days_chart, owners_chart
from agentenv.cli.reports.cost_view import View
from agentenv.core.attribution.types import PARTS, TITLES

TOP = 15


def page(view: View, generated: datetime | None = None) -> str:
    """Return the HTML page of a cost report."""
    try:
        import jinja2
    except ImportError:
        raise CommandError("a page needs jinja2: pip install 'agent-environment[reports]'") from None
    # All values are escaped, and an undefined name is an error.
    environment: Any = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"dollars": _dollars, "number": _number}
    template = environment.from_string(files(__package__ or "").joinpath("cost.html.jinja").read_text(encoding="utf-8"))
    return template.render(
        view=view,
        generated=(generated or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
        first=_day(view.context.since),
        last=_day(view.context.until - timedelta(days=1)),
        days=days_chart(view.days),
        spread=owners_chart(view.owners, view.context.cap),
        most=max((row.total for row in view.owners), default=Decimal(1)) or Decimal(1),
        widest=max((row.amount for row in view.parts), default=Decimal(1)) or Decimal(1),
        top=TOP,
        parts=PARTS,
        titles=TITLES,
    )


def _day(date: datetime) -> str:
    return f"{date.day} {date:%B %Y}"


def _dollars(amount: Decimal) -> str:
    """Format dollars with a sign and cents."""
    return f"-${-amount:,.2f}" if amount < 0 else f"${amount:,.2f}"


def _number(amount: Decimal | int) -> str:
    return f"{amount:,}"
