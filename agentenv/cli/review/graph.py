"""The resources that a program wants or a state holds, as the engine's preview tells of them.

Read from the digest of `pulumi preview --json`, which unlike the event log says what each property depends on, whether
a resource is protected or retained, and which line of the program registered it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

STACK_TYPE = "pulumi:pulumi:Stack"
PROVIDERS = "pulumi:providers:"
# What the engine writes where a value comes to be only once something is made: a mark for each kind of value
UNKNOWN = frozenset(
    {
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)
_POSITION = "project://"


@dataclass(frozen=True)
class Source:
    """The line of the program that registered a resource, from the project's folder."""

    file: str
    line: int


@dataclass(frozen=True)
class Resource:
    """One resource, wanted or there."""

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
    ignores: tuple[str, ...] = ()  # inputs whose changes the program lets be
    replaced_by: tuple[str, ...] = ()  # and those whose changes it wants replaced
    source: Source | None = None

    @property
    def name(self) -> str:
        """The name in the program."""
        return self.urn.rsplit("::", 1)[-1]

    @property
    def plumbing(self) -> bool:
        """Whether it is the stack itself or a provider, which nobody looks for in a review."""
        return self.type == STACK_TYPE or self.type.startswith(PROVIDERS)

    def as_json(self) -> dict[str, Any]:
        """All of it, as `from_json` reads it."""
        return asdict(self)


Graph = dict[str, Resource]


def from_json(row: Mapping[str, Any]) -> Resource:
    """A resource that was written by `as_json`."""
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
    """A resource from a step's state; positions in it are told from the `project` folder, and kept from the `root`.

    What a component hands out comes after its step, and so from elsewhere.
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
    """Resources by URN, in the order in which they came."""
    return {resource.urn: resource for resource in resources}


def is_unknown(value: object) -> bool:
    """Whether a value is the mark of one that is not known yet."""
    return isinstance(value, str) and value in UNKNOWN


def unknown_paths(value: object, path: str = "") -> list[str]:
    """Every place in a value that is not known yet."""
    if isinstance(value, Mapping):
        return [one for key, inner in value.items() for one in unknown_paths(inner, f"{path}.{key}" if path else key)]
    if isinstance(value, list):
        return [one for index, inner in enumerate(value) for one in unknown_paths(inner, f"{path}[{index}]")]
    return [path] if is_unknown(value) else []


def _source(state: Mapping[str, Any], project: Path, root: Path) -> Source | None:
    """The innermost line of the program itself: what is in an installed package is nobody's to mend here."""
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
