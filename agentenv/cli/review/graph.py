"""The graph of resources of a program or a state, as the engine's preview has it.

It is read from the digest of `pulumi preview --json`. Unlike the event log, the digest has the dependencies of each
property, the protect and retain options, and the line of the program that registered the resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from agentenv.core.capabilities.unknown_values import PLACEHOLDERS

STACK_TYPE = "pulumi:pulumi:Stack"
PROVIDERS = "pulumi:providers:"
_POSITION = "project://"


@dataclass(frozen=True)
class Source:
    """The line of the program that registered a resource, relative to the project's folder."""

    file: str
    line: int


@dataclass(frozen=True)
class Resource:
    """A resource of a program or a state."""

    urn: str
    type: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    custom: bool = True
    parent: str = ""
    provider: str = ""
    protect: bool = False
    retain: bool = False
    dependencies: tuple[str, ...] = ()
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    outputs: Mapping[str, Any] = field(default_factory=dict)
    ignores: tuple[str, ...] = ()  # the option ignoreChanges
    replaced_by: tuple[str, ...] = ()  # the option replaceOnChanges
    source: Source | None = None

    @property
    def name(self) -> str:
        """Return the name in the program."""
        return self.urn.rsplit("::", 1)[-1]

    @property
    def internal(self) -> bool:
        """Return whether it is the stack or a provider, which a review does not show."""
        return self.type == STACK_TYPE or self.type.startswith(PROVIDERS)

    def as_json(self) -> dict[str, Any]:
        """Return the resource as JSON, which `from_json` reads."""
        return asdict(self)


Graph = dict[str, Resource]


def from_json(row: Mapping[str, Any]) -> Resource:
    """Return the resource from the JSON of `as_json`."""
    source = row["source"]
    return Resource(
        **{
            **row,
            "dependencies": tuple(row["dependencies"]),
            **{key: tuple(row[key]) for key in ("aliases", "ignores", "replaced_by")},
            "property_dependencies": {key: tuple(urns) for key, urns in row["property_dependencies"].items()},
            "source": Source(**source) if source else None,
        }
    )


def from_state(
    state: Mapping[str, Any], project: Path, root: Path, outputs: Mapping[str, Any] | None = None
) -> Resource:
    """Return the resource of a step's state. Its positions are relative to `project`, and become relative to `root`.

    The outputs of a component are registered after its step, so they are a separate argument.
    """
    return Resource(
        urn=state["urn"],
        type=state["type"],
        inputs={key: value for key, value in (state.get("inputs") or {}).items() if key != "__defaults"},
        custom=bool(state.get("custom")),
        parent=state.get("parent") or "",
        provider=state.get("provider") or "",
        protect=bool(state.get("protect")),
        retain=bool(state.get("retainOnDelete")),
        dependencies=tuple(state.get("dependencies") or ()),
        property_dependencies={
            key: tuple(urns) for key, urns in (state.get("propertyDependencies") or {}).items() if urns
        },
        ignores=tuple(state.get("ignoreChanges") or ()),
        replaced_by=tuple(state.get("replaceOnChanges") or ()),
        outputs=outputs or state.get("outputs") or {},
        aliases=tuple(alias for alias in state.get("aliases") or () if isinstance(alias, str)),
        source=_source(state, project, root),
    )


def graph(resources: Iterable[Resource]) -> Graph:
    """Return resources by URN, in their order."""
    return {resource.urn: resource for resource in resources}


def is_unknown(value: object) -> bool:
    """Return whether a value is the placeholder of an unknown value."""
    return isinstance(value, str) and value in PLACEHOLDERS


def unknown_paths(value: object, path: str = "") -> list[str]:
    """Return the path of every unknown value in a value."""
    if isinstance(value, Mapping):
        return [row for key, inner in value.items() for row in unknown_paths(inner, f"{path}.{key}" if path else key)]
    if isinstance(value, list):
        return [row for index, inner in enumerate(value) for row in unknown_paths(inner, f"{path}[{index}]")]
    return [path] if is_unknown(value) else []


def _source(state: Mapping[str, Any], project: Path, root: Path) -> Source | None:
    """Return the innermost line of the project's own files, without those of installed packages."""
    frames = [state.get("sourcePosition"), *(frame.get("sourcePosition") for frame in state.get("stackTrace") or ())]
    for position in frames:
        if not position or not position.startswith(_POSITION):
            continue
        place, _, line = position.removeprefix(_POSITION).lstrip("/").partition("#")
        file = (project / place).resolve()
        if not line.partition(",")[0].isdigit() or not file.is_relative_to(root):
            continue
        inside = PurePosixPath(file.relative_to(root).as_posix())
        if ".venv" not in inside.parts and "site-packages" not in inside.parts:
            return Source(str(inside), int(line.partition(",")[0]))
    return None
