"""Helm charts: found on disk or among the rehearsal's tools, and rendered by helm with the values given."""

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


class NotHad(Exception):
    """A chart that cannot be had here, and why."""


class BadChart(Exception):
    """What helm says against a chart or its values."""


@dataclass(frozen=True)
class Chart:
    """A chart on disk."""

    path: Path
    name: str
    version: str
    app_version: str = ""
    unstamped: bool = False  # from a source tree, where the file still has the version of the release before


@dataclass(frozen=True)
class Rendering:
    """What is to be rendered: a release's name, its place and its values, and what the cluster can do."""

    name: str
    namespace: str
    values: Mapping[str, Any] = field(repr=False)
    kube_version: str = ""
    api_versions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rendered:
    """A chart's objects: definitions that helm only ever creates, everything else, and hooks, which run once."""

    definitions: list[Object]
    objects: list[Object]
    hooks: list[Object]


def find(chart: str, version: str = "") -> Chart:
    """The chart at a path, else the rehearsal's own copy of it, told by its name and exact version."""
    local = Path(chart).expanduser()
    if (local / "Chart.yaml").is_file():
        return read(local)
    if local.is_file():
        return _archive(local)
    name = chart.rstrip("/").rsplit("/", maxsplit=1)[-1]
    had = [c for c in known() if c.name == name]
    for one in had:
        if not version or one.version.removeprefix("v") == version.removeprefix("v"):
            return one
    if had:
        raise NotHad(f"chart {name} is there in version {had[0].version}, not in {version}")
    names = ", ".join(f"{c.name} {c.version}" for c in known()) or "none"
    raise NotHad(f"chart {chart} is no folder here and none of those that the rehearsal brings ({names})")


def read(path: Path) -> Chart:
    try:
        about = yaml.safe_load((path / "Chart.yaml").read_text(encoding="utf-8"))
        return Chart(path, str(about["name"]), str(about["version"]), str(about.get("appVersion") or ""))
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise BadChart(f"{path / 'Chart.yaml'} cannot be read: {type(error).__name__}: {error}") from None


def _archive(path: Path) -> Chart:
    about = yaml.safe_load(_helm("show", "chart", str(path)))
    return Chart(path, str(about["name"]), str(about["version"]), str(about.get("appVersion") or ""))


@functools.cache
def known() -> tuple[Chart, ...]:
    """The charts that the rehearsal's tools bring, as far as they have been fetched."""
    found: list[Chart] = []
    for row in catalog.RECIPES:
        path = toolbox.find(row).path if row.name.endswith(SUFFIX) else None
        if path is not None:
            chart, version = read(path), row.version.removeprefix("v")
            # Beside a program's source lies what is stamped when it is released; a repository of charts has it stamped.
            stamped = chart.version == version
            found.append(chart if stamped else Chart(path, chart.name, version, version, unstamped=True))
    return tuple(found)


@functools.cache
def helm() -> Path:
    found = toolbox.find(catalog.recipe("helm")).path
    if found is None:
        raise NotHad("helm is not there: put it on PATH, or let the rehearsal build it (`agentenv tools` lists it)")
    return found


def render(chart: Chart, rendering: Rendering) -> Rendered:
    """The chart's objects with these values; values against its schema are helm's error."""
    absent = _absent(chart, rendering.values)
    if not chart.unstamped and not absent:
        return _rendered(chart, rendering)
    with tempfile.TemporaryDirectory(prefix="agentenv-") as folder:
        return _rendered(_as_published(chart, Path(folder) / chart.name, absent), rendering)


def _absent(chart: Chart, values: Mapping[str, Any]) -> list[str]:
    """The charts that this one depends on, that a source tree does not have, and that the values switch off.

    A published chart brings them along, and helm passes over what is switched off; but it wants all of them there.
    """
    if not chart.path.is_dir():
        return []
    about = yaml.safe_load((chart.path / "Chart.yaml").read_text(encoding="utf-8"))
    missing = [one for one in about.get("dependencies") or [] if not any(chart.path.glob(f"charts/{one['name']}*"))]
    wanted = [one["name"] for one in missing if _at(values, str(one.get("condition") or "")) is not False]
    if wanted:
        raise NotHad(f"chart {chart.name} needs {', '.join(wanted)}, which its source does not bring along")
    return [one["name"] for one in missing]


def _at(values: Any, path: str) -> Any:
    for key in path.split("."):
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def _as_published(chart: Chart, folder: Path, absent: Sequence[str]) -> Chart:
    """A copy that says the version it is published under, which templates put into labels and images; and no more of
    what it depends on than is there."""
    shutil.copytree(chart.path, folder)
    about = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
    about |= {"version": chart.version, "appVersion": chart.app_version}
    if absent:
        about["dependencies"] = [one for one in about["dependencies"] if one["name"] not in absent]
        (folder / "Chart.lock").unlink(missing_ok=True)
    (folder / "Chart.yaml").chmod(0o644)
    (folder / "Chart.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
    return replace(chart, path=folder, unstamped=False)


def _rendered(chart: Chart, rendering: Rendering) -> Rendered:
    arguments = ["template", rendering.name, str(chart.path), "--namespace", rendering.namespace, "--skip-crds"]
    if rendering.kube_version:
        arguments += ["--kube-version", rendering.kube_version]
    for version in rendering.api_versions:
        arguments += ["--api-versions", version]
    # By standard input: values hold secrets, which belong neither into files nor into a process's arguments.
    text = _helm(*arguments, "--values", "-", given=json.dumps(rendering.values))
    found = manifests.parse(text, f"chart {chart.name}")
    hooks = [obj for obj in found if objects.annotation(obj, HOOK)]
    return Rendered(
        definitions=manifests.parse(_helm("show", "crds", str(chart.path)), f"chart {chart.name}"),
        objects=[obj for obj in found if obj not in hooks],
        hooks=[obj for obj in hooks if "test" not in objects.annotation(obj, HOOK)],
    )


def _helm(*arguments: str, given: str = "") -> str:
    with _lock:  # finding it asks it for its version, once
        program = helm()
    try:
        done = subprocess.run(
            [str(program), *arguments], input=given, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise BadChart(f"helm {arguments[0]} did not end within {PATIENCE:.0f} s") from None
    if done.returncode != 0:
        raise BadChart(done.stderr.strip().removeprefix("Error: ") or f"helm ended with {done.returncode}")
    return done.stdout


def merged(layers: Iterable[Any]) -> dict[str, Any]:
    """Values over values, as helm lays its files over each other: objects by their keys, everything else whole."""
    out: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            before = out.get(key)
            both = isinstance(before, Mapping) and isinstance(value, Mapping)
            out[key] = merged([before, value]) if both else value
    return out


def values_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a release: its files of values, then those given in the program."""
    given: Any = arguments.get("values")
    layers: list[Mapping[str, Any]] = []
    for asset in arguments.get("valueYamlFiles") or []:
        try:
            text = asset["text"] if "text" in asset else Path(asset["path"]).read_text(encoding="utf-8")
            layers += manifests.parse(str(text), "valueYamlFiles")
        except (OSError, KeyError, TypeError) as error:
            raise BadChart(f"valueYamlFiles: cannot be read: {error}") from None
    return merged([*layers, given or {}])


def names(found: Sequence[Object]) -> dict[str, list[str]]:
    """The objects' names by kind, as a release's `resourceNames` has them."""
    out: dict[str, list[str]] = {}
    for obj in found:
        version = objects.api_version(obj)
        group = f".{version.split('/')[0]}" if "/" in version else ""
        out.setdefault(f"{objects.kind(obj)}{group}/{version}", []).append(objects.identity(obj))
    return {key: sorted(out[key]) for key in sorted(out)}
