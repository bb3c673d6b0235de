"""Charts as their repositories have them: what a published chart brings along, and a source tree does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from agentenv.rehearsal.providers.kubernetes import charts
from agentenv.rehearsal.providers.kubernetes.charts import Chart, ChartUnavailable, Rendered, Rendering

ABOUT = {
    "name": "whole",
    "version": "1.2.3",
    "appVersion": "v9",
    "dependencies": [
        {"name": "part", "version": "1", "condition": "part.enabled"},
        {"name": "there", "version": "1", "condition": "there.enabled"},
    ],
}


@pytest.fixture
def chart(tmp_path: Path) -> Chart:
    folder = tmp_path / "whole"
    (folder / "charts" / "there").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(yaml.safe_dump(ABOUT), encoding="utf-8")
    (folder / "Chart.lock").write_text("digest: sha256:00\n", encoding="utf-8")
    return charts.read(folder)


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, dict[str, Any]]]:
    """The final values for helm."""
    seen: list[tuple[Path, dict[str, Any]]] = []

    def rendered(chart: Chart, _rendering: Rendering) -> Rendered:
        seen.append((chart.path, yaml.safe_load((chart.path / "Chart.yaml").read_text(encoding="utf-8"))))
        return Rendered([], [], [])

    monkeypatch.setattr(charts, "_rendered", rendered)
    return seen


def test_disabled_dependency_may_be_missing(chart: Chart, rendered: list[tuple[Path, dict[str, Any]]]) -> None:
    charts.render(chart, Rendering("one", "here", {"part": {"enabled": False}}))
    ((path, about),) = rendered
    assert [item["name"] for item in about["dependencies"]] == ["there"]
    assert (about["version"], about["appVersion"]) == ("1.2.3", "v9")
    assert path != chart.path, "the cache's own copy is left as it is"
    assert yaml.safe_load((chart.path / "Chart.yaml").read_text(encoding="utf-8")) == ABOUT


@pytest.mark.parametrize("values", [{}, {"part": {"enabled": True}}, {"part": {}}, {"part": None}])
def test_missing_dependency_makes_a_chart_unavailable(chart: Chart, values: dict[str, Any]) -> None:
    with pytest.raises(ChartUnavailable, match="needs part"):
        charts.render(chart, Rendering("one", "here", values))


def test_self_contained_chart_is_used_in_place(chart: Chart, rendered: list[tuple[Path, dict[str, Any]]]) -> None:
    (chart.path / "charts" / "part-1.0.0.tgz").touch()
    charts.render(chart, Rendering("one", "here", {}))
    assert rendered[0][0] == chart.path
