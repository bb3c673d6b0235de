"""The cost report as a page: one file that needs no other, reads in light and dark, and prints."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.resources import files
from typing import Any

from agentenv.cli.main import Refusal
from agentenv.cli.reports.charts import days_chart, owners_chart
from agentenv.cli.reports.cost_view import View
from agentenv.core.attribution.types import PARTS, TITLES

TOP = 15


def page(view: View, made: datetime | None = None) -> str:
    """The page."""
    try:
        import jinja2
    except ImportError:
        raise Refusal("a page needs jinja2: pip install 'agent-environment[reports]'") from None
    # Everything that is put in is escaped; a name that is missing is a mistake and no empty text.
    environment: Any = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"dollars": _dollars, "number": _number}
    template = environment.from_string(files(__package__ or "").joinpath("cost.html.jinja").read_text(encoding="utf-8"))
    return template.render(
        view=view,
        made=(made or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
        first=_day(view.about.since),
        last=_day(view.about.until - timedelta(days=1)),
        days=days_chart(view.days),
        spread=owners_chart(view.owners, view.about.cap),
        most=max((one.total for one in view.owners), default=Decimal(1)) or Decimal(1),
        widest=max((one.amount for one in view.parts), default=Decimal(1)) or Decimal(1),
        top=TOP,
        parts=PARTS,
        titles=TITLES,
    )


def _day(when: datetime) -> str:
    return f"{when.day} {when:%B %Y}"


def _dollars(amount: Decimal) -> str:
    """Dollars as people write them."""
    return f"-${-amount:,.2f}" if amount < 0 else f"${amount:,.2f}"


def _number(amount: Decimal | int) -> str:
    return f"{amount:,}"
