"""The model of a dashboard, independent of Grafana: sections of panels with their queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# `number` is one value, `lines` and `stack` run over time, `days` has a bar a day, `ranking` is a table by value.
Kind = Literal["number", "lines", "stack", "days", "ranking", "words"]


@dataclass(frozen=True)
class Query:
    """An expression, and the legend of its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A panel. `columns` are the labels that a ranking shows beside the value."""

    title: str
    kind: Kind
    why: str
    queries: tuple[Query, ...] = ()
    unit: str = "short"
    width: int = 12
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Choice:
    """A dashboard variable: the values of a label of a series."""

    name: str
    title: str
    series: str
    every: bool = False  # whether all at once may be chosen, which it is then at first


@dataclass(frozen=True)
class Dashboard:
    """A dashboard."""

    name: str
    title: str
    why: str
    since: str
    sections: tuple[Section, ...]
    choices: tuple[Choice, ...] = ()

    def panels(self) -> tuple[Panel, ...]:
        """Return all panels."""
        return tuple(panel for section in self.sections for panel in section.panels)


DOLLARS, PART, BYTES, SECONDS = "currencyUSD", "percentunit", "bytes", "s"
