"""Turns what dashboards show (agentenv/core/metering) into Grafana's JSON, by Grafana's own builders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.core.metering.dashboards import DASHBOARDS
from agentenv.core.metering.locations import PROMETHEUS

if TYPE_CHECKING:
    from agentenv.core.metering.panel import Choice, Dashboard, Panel, Query

_WHOLE = 24  # columns of Grafana's grid
_HEIGHTS = {"number": 4, "words": 4}
_HEIGHT = 8


def dashboard_text(name: str) -> str:
    """The file of the dashboard of that name."""
    # Only who generates needs the builders, and they are a tenth of a second to import.
    from grafana_foundation_sdk.cog.encoder import JSONEncoder

    shown = next(one for one in DASHBOARDS if one.name == name)
    return JSONEncoder(sort_keys=True, indent=1).encode(_built(shown)) + "\n"


def _built(shown: Dashboard) -> Any:
    from grafana_foundation_sdk.builders import dashboard

    made = (
        dashboard.Dashboard(shown.title)
        .uid(f"sandboxes-{shown.name}")
        .description(shown.why)
        .tags(["sandboxes"])
        .time(shown.since, "now")
        .refresh("1m")
        .timezone("browser")
        .readonly()
    )
    for choice in shown.choices:
        made = made.with_variable(_variable(choice))
    for section in shown.sections:
        made = made.with_row(dashboard.Row(section.title))
        for panel in section.panels:
            made = made.with_panel(_panel(panel))
    return made.build()


def _source() -> Any:
    from grafana_foundation_sdk.models.dashboard import DataSourceRef

    return DataSourceRef(type_val="prometheus", uid=PROMETHEUS)


def _variable(choice: Choice) -> Any:
    from grafana_foundation_sdk.builders import dashboard
    from grafana_foundation_sdk.models.dashboard import VariableRefresh, VariableSort

    asked = (
        dashboard.QueryVariable(choice.name)
        .label(choice.title)
        .datasource(_source())
        .query(f"label_values({choice.series}, {choice.name})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    return asked.multi(True).include_all(True).all_value(".+") if choice.every else asked


def _panel(panel: Panel) -> Any:
    from grafana_foundation_sdk.builders import stat, table, text, timeseries
    from grafana_foundation_sdk.builders.common import ReduceDataOptions, StackingConfig, VizLegendOptions
    from grafana_foundation_sdk.models.common import (
        GraphDrawStyle,
        LegendDisplayMode,
        LegendPlacement,
        StackingMode,
    )
    from grafana_foundation_sdk.models.text import TextMode

    made: Any
    if panel.kind == "words":
        made = text.Panel().mode(TextMode.MARKDOWN).content(panel.why)
    elif panel.kind == "number":
        made = stat.Panel().reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
    elif panel.kind == "ranking":
        made = table.Panel()
        for transformation in _ranked(panel):
            made = made.with_transformation(transformation)
    else:
        legend = VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        made = timeseries.Panel().legend(legend.show_legend(True))
        if panel.kind in {"stack", "days"}:
            made = made.stacking(StackingConfig().mode(StackingMode.NORMAL)).fill_opacity(40)
        if panel.kind == "days":
            made = made.draw_style(GraphDrawStyle.BARS).fill_opacity(80).interval("1d")
    made = made.title(panel.title).span(panel.width * _WHOLE // 24).height(_HEIGHTS.get(panel.kind, _HEIGHT))
    if panel.kind == "words":
        return made
    made = made.description(panel.why).unit(panel.unit).datasource(_source())
    for letter, query in zip("ABCDEFGH", panel.queries, strict=False):
        made = made.with_target(_target(query, letter, panel))
    return made


def _target(query: Query, letter: str, panel: Panel) -> Any:
    from grafana_foundation_sdk.builders import prometheus
    from grafana_foundation_sdk.models.prometheus import PromQueryFormat

    asked = prometheus.Dataquery().expr(query.expr).ref_id(letter).datasource(_source())
    if panel.kind == "ranking":
        return asked.instant().format(PromQueryFormat.TABLE)
    asked = asked.instant() if panel.kind == "number" else asked.range()
    return asked.legend_format(query.legend) if query.legend else asked


def _ranked(panel: Panel) -> list[Any]:
    """A table of labels and the value, the greatest first."""
    from grafana_foundation_sdk.models.dashboard import DataTransformerConfig

    order = {name: place for place, name in enumerate((*panel.columns, "Value"))}
    organized = {"excludeByName": {"Time": True, "__name__": True}, "indexByName": order, "renameByName": {}}
    return [
        DataTransformerConfig(id_val="organize", options=organized),
        DataTransformerConfig(id_val="sortBy", options={"fields": {}, "sort": [{"field": "Value", "desc": True}]}),
    ]
