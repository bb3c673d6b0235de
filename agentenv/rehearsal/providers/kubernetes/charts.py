"""Helm charts: found on disk or among the rehearsal's tools, and rendered by helm."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from agentenv.rehearsal.providers.kubernetes import manifests, objects
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.tools import catalog, toolbox

PATIENCE: Final = 120.0
HOOK: Final = "helm.sh/hook"
SUFFIX: Final = "-chart"  # of the tools that are charts

_lock = threading.Lock()


class ChartUnavailable(Exception):
    """The chart is not available here, and why."""


class InvalidChart(Exception):
    """Helm's error about a chart or its values."""


@dataclass(frozen=True)
class Chart:
    """A chart on disk."""

    path: Path
    name: str
    version: str
    app_version: str = ""
    version_placeholder: bool = False  # from a source tree, where the file still has the version of the release before


@dataclass(frozen=True)
class Rendering:
    """The input of a rendering: the release's name, namespace and values, and the cluster's capabilities."""

    name: str
    namespace: str
    values: Mapping[str, Any] = field(repr=False)
    kube_version: str = ""
    api_versions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rendered:
    """The objects of a chart: CRDs, which helm only creates, hooks, which run once, and all others."""

    definitions: list[Object]
    objects: list[Object]
    hooks: list[Object]


def find(chart: str, version: str = "") -> Chart:
    """Return the chart at a path, else the rehearsal's copy with that name and exact version."""
    local = Path(chart).expanduser()
    if (local / "Chart.yaml").is_file():
        return read(local)
    if local.is_file():
        return _archive(local)
    name = chart.rstrip("/").rsplit("/", maxsplit=1)[-1]
    local_charts = [c for c in known() if c.name == name]
    for item in local_charts:
        if not version or item.version.removeprefix("v") == version.removeprefix("v"):
            return item
    if local_charts:
        raise ChartUnavailable(f"chart {name} is there in version {local_charts[0].version}, not in {version}")
    names = ", ".join(f"{c.name} {c.version}" for c in known()) or "none"
    raise ChartUnavailable(f"chart {chart} is no folder here and none of those that the rehearsal brings ({names})")


def read(path: Path) -> Chart:
    try:
        metadata = yaml.safe_load((path / "Chart.yaml").read_text(encoding="utf-8"))
        return Chart(path, str(metadata["name"]), str(metadata["version"]), str(metadata.get("appVersion") or ""))
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise InvalidChart(f"{path / 'Chart.yaml'} cannot be read: {type(error).__name__}: {error}") from None


def _archive(path: Path) -> Chart:
    metadata = yaml.safe_load(_helm("show", "chart", str(path)))
    return Chart(path, str(metadata["name"]), str(metadata["version"]), str(metadata.get("appVersion") or ""))


@functools.cache
def known() -> tuple[Chart, ...]:
    """Return the charts among the rehearsal's tools that have been fetched."""
    result: list[Chart] = []
    for row in catalog.RECIPES:
        path = toolbox.find(row).path if row.name.endswith(SUFFIX) else None
        if path is not None:
            chart, version = read(path), row.version.removeprefix("v")
            # Beside a program's source lies what is stamped when it is released; a repository of charts has it stamped.
            stamped = chart.version == version
            result.append(chart if stamped else Chart(path, chart.name, version, version, version_placeholder=True))
    return tuple(result)


@functools.cache
def helm() -> Path:
    result = toolbox.find(catalog.recipe("helm")).path
    if result is None:
        raise ChartUnavailable(
            "helm is not there: put it on PATH, or let the rehearsal build it (`agentenv tools` lists it)"
        )
    return result


def render(chart: Chart, rendering: Rendering) -> Rendered:
    """Return the chart's objects for these values. Values that violate its schema are an error of helm."""
    absent = _absent_dependencies(chart, rendering.values)
    if not chart.version_placeholder and not absent:
        return _rendered(chart, rendering)
    with tempfile.TemporaryDirectory(prefix="agentenv-") as folder:
        return _rendered(_published_copy(chart, Path(folder) / chart.name, absent), rendering)


def _absent_dependencies(chart: Chart, values: Mapping[str, Any]) -> list[str]:
    """Return the dependencies that a source tree lacks and the values disable.

    A published chart contains them. Helm skips disabled dependencies, but requires that they exist.
    """
    if not chart.path.is_dir():
        return []
    metadata = yaml.safe_load((chart.path / "Chart.yaml").read_text(encoding="utf-8"))
    missing = [
        item for item in metadata.get("dependencies") or [] if not any(chart.path.glob(f"charts/{item['name']}*"))
    ]
    enabled = [item["name"] for item in missing if _at(values, str(item.get("condition") or "")) is not False]
    if enabled:
        raise ChartUnavailable(f"chart {chart.name} needs {', '.join(enabled)}, which its source does not bring along")
    return [item["name"] for item in missing]


def _at(values: Any, path: str) -> Any:
    for key in path.split("."):
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def _published_copy(chart: Chart, folder: Path, absent: Sequence[str]) -> Chart:
    """A copy that says the version it is published under, which templates put into labels and images; and no more of
    what it depends on than is there."""
    shutil.copytree(chart.path, folder)
    metadata = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
    metadata |= {"version": chart.version, "appVersion": chart.app_version}
    if absent:
        metadata["dependencies"] = [item for item in metadata["dependencies"] if item["name"] not in absent]
        (folder / "Chart.lock").unlink(missing_ok=True)
    (folder / "Chart.yaml").chmod(0o644)
    (folder / "Chart.yaml").write_text(yaml.safe_dump(metadata), encoding="utf-8")
    return replace(chart, path=folder, version_placeholder=False)


def _rendered(chart: Chart, rendering: Rendering) -> Rendered:
    arguments = ["template", rendering.name, str(chart.path), "--namespace", rendering.namespace, "--skip-crds"]
    if rendering.kube_version:
        arguments += ["--kube-version", rendering.kube_version]
    for version in rendering.api_versions:
        arguments += ["--api-versions", version]
    # By standard input: values hold secrets, which belong neither into files nor into a process's arguments.
    text = _helm(*arguments, "--values", "-", stdin=json.dumps(rendering.values))
    result = manifests.parse(text, f"chart {chart.name}")
    hooks = [obj for obj in result if objects.annotation(obj, HOOK)]
    return Rendered(
        definitions=manifests.parse(_helm("show", "crds", str(chart.path)), f"chart {chart.name}"),
        objects=[obj for obj in result if obj not in hooks],
        hooks=[obj for obj in hooks if "test" not in objects.annotation(obj, HOOK)],
    )


def _helm(*arguments: str, stdin: str = "") -> str:
    with _lock:  # finding it asks it for its version, once
        program = helm()
    try:
        done = subprocess.run(
            [str(program), *arguments], input=stdin, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise InvalidChart(f"helm {arguments[0]} did not end within {PATIENCE:.0f} s") from None
    if done.returncode != 0:
        raise InvalidChart(done.stderr.strip().removeprefix("Error: ") or f"helm ended with {done.returncode}")
    return done.stdout


def merged(layers: Iterable[Any]) -> dict[str, Any]:
    """Merge values as helm does: objects by key, everything else as a whole."""
    out: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            before = out.get(key)
            both = isinstance(before, Mapping) and isinstance(value, Mapping)
            out[key] = merged([before, value]) if both else value
    return out


def values_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a release: its value files, then the program's values."""
    stdin: Any = arguments.get("values")
    layers: list[Mapping[str, Any]] = []
    for asset in arguments.get("valueYamlFiles") or []:
        try:
            text = asset["text"] if "text" in asset else Path(asset["path"]).read_text(encoding="utf-8")
            layers += manifests.parse(str(text), "valueYamlFiles")
        except (OSError, KeyError, TypeError) as error:
            raise InvalidChart(f"valueYamlFiles: cannot be read: {error}") from None
    return merged([*layers, stdin or {}])


def names(result: Sequence[Object]) -> dict[str, list[str]]:
    """Return the names of objects by kind, in the form of a release's `resourceNames`."""
    out: dict[str, list[str]] = {}
    for obj in result:
        version = objects.api_version(obj)
        group = f".{version.split('/')[0]}" if "/" in version else ""
        out.setdefault(f"{objects.kind(obj)}{group}/{version}", []).append(objects.identity(obj))
    return {key: sorted(out[key]) for key in sorted(out)}
