"""Convert the dashboards of agentenv/core/metering to Grafana's JSON, with Grafana's builders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.core.metering.dashboards import DASHBOARDS
from agentenv.core.metering.locations import PROMETHEUS

if TYPE_CHECKING:
    from agentenv.core.metering.panel import Choice, Dashboard, Panel, Query

_COLUMNS = 24  # of Grafana's grid
_HEIGHTS = {"number": 4, "words": 4}
_HEIGHT = 8


def dashboard_text(name: str) -> str:
    """Return the file of a dashboard."""
    # Only the generator needs the builders, and their import takes a tenth of a second.
    from grafana_foundation_sdk.cog.encoder import JSONEncoder

    layout = next(layout for layout in DASHBOARDS if layout.name == name)
    return JSONEncoder(sort_keys=True, indent=1).encode(_dashboard(layout)) + "\n"


def _dashboard(layout: Dashboard) -> Any:
    from grafana_foundation_sdk.builders import dashboard

    builder = (
        dashboard.Dashboard(layout.title)
        .uid(f"sandboxes-{layout.name}")
        .description(layout.why)
        .tags(["sandboxes"])
        .time(layout.since, "now")
        .refresh("1m")
        .timezone("browser")
        .readonly()
    )
    for choice in layout.choices:
        builder = builder.with_variable(_variable(choice))
    for section in layout.sections:
        builder = builder.with_row(dashboard.Row(section.title))
        for panel in section.panels:
            builder = builder.with_panel(_panel(panel))
    return builder.build()


def _source() -> Any:
    from grafana_foundation_sdk.models.dashboard import DataSourceRef

    return DataSourceRef(type_val="prometheus", uid=PROMETHEUS)


def _variable(choice: Choice) -> Any:
    from grafana_foundation_sdk.builders import dashboard
    from grafana_foundation_sdk.models.dashboard import VariableRefresh, VariableSort

    builder = (
        dashboard.QueryVariable(choice.name)
        .label(choice.title)
        .datasource(_source())
        .query(f"label_values({choice.series}, {choice.name})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    return builder.multi(True).include_all(True).all_value(".+") if choice.every else builder


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

    builder: Any
    if panel.kind == "words":
        builder = text.Panel().mode(TextMode.MARKDOWN).content(panel.why)
    elif panel.kind == "number":
        builder = stat.Panel().reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
    elif panel.kind == "ranking":
        builder = table.Panel()
        for transformation in _ranking_transformations(panel):
            builder = builder.with_transformation(transformation)
    else:
        legend = VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        builder = timeseries.Panel().legend(legend.show_legend(True))
        if panel.kind in {"stack", "days"}:
            builder = builder.stacking(StackingConfig().mode(StackingMode.NORMAL)).fill_opacity(40)
        if panel.kind == "days":
            builder = builder.draw_style(GraphDrawStyle.BARS).fill_opacity(80).interval("1d")
    builder = builder.title(panel.title).span(panel.width * _COLUMNS // 24).height(_HEIGHTS.get(panel.kind, _HEIGHT))
    if panel.kind == "words":
        return builder
    builder = builder.description(panel.why).unit(panel.unit).datasource(_source())
    for letter, query in zip("ABCDEFGH", panel.queries, strict=False):
        builder = builder.with_target(_target(query, letter, panel))
    return builder


def _target(query: Query, letter: str, panel: Panel) -> Any:
    from grafana_foundation_sdk.builders import prometheus
    from grafana_foundation_sdk.models.prometheus import PromQueryFormat

    builder = prometheus.Dataquery().expr(query.expr).ref_id(letter).datasource(_source())
    if panel.kind == "ranking":
        return builder.instant().format(PromQueryFormat.TABLE)
    builder = builder.instant() if panel.kind == "number" else builder.range()
    return builder.legend_format(query.legend) if query.legend else builder


def _ranking_transformations(panel: Panel) -> list[Any]:
    """Return the transformations for a table of labels and values, in descending order."""
    from grafana_foundation_sdk.models.dashboard import DataTransformerConfig

    order = {name: index for index, name in enumerate((*panel.columns, "Value"))}
    organized = {"excludeByName": {"Time": True, "__name__": True}, "indexByName": order, "renameByName": {}}
    return [
        DataTransformerConfig(id_val="organize", options=organized),
        DataTransformerConfig(id_val="sortBy", options={"fields": {}, "sort": [{"field": "Value", "desc": True}]}),
    ]
