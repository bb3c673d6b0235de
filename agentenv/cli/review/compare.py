"""Tells what an update would do from two graphs alone: by URN, by inputs, and by the tables of the stand-ins.

The tables say which inputs a service cannot change in place; the official plugins decide by the same schema. What is
unknown in both graphs counts as unchanged, unless what it comes from is replaced: then so is what it identifies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentenv.cli.review.changes import Change, Sureness
from agentenv.cli.review.graph import Graph, Resource, unknown_paths

_RANDOM = re.compile(r"[0-9a-z]{7,8}")


def compared(before: Graph, after: Graph) -> list[Change]:
    """Every change from one graph to the other, in the order of the new one; what goes comes last."""
    before, after = _without_made_up_names(before), _without_made_up_names(after)
    renamed = _renamed(before, after)
    found: dict[str, Change] = {}
    for urn, resource in after.items():
        if resource.plumbing:
            continue
        old = before.get(renamed.get(urn, urn))
        change = Change("create", urn, resource.type, (), "shown") if old is None else _differing(old, resource)
        if change is not None:
            found[urn] = change
    _brought_along(after, found)
    kept = {*after, *renamed.values()}
    gone = [Change("delete", urn, old.type, (), "shown") for urn, old in before.items() if urn not in kept]
    return [*found.values(), *(change for change in gone if not before[change.urn].plumbing)]


def unknown_in_both(before: Graph, after: Graph) -> int:
    """How many values nobody can compare before they are made."""
    return sum(
        len(set(unknown_paths(old.inputs)) & set(unknown_paths(new.inputs)))
        for urn, new in after.items()
        if (old := before.get(urn)) is not None and not new.plumbing
    )


def _without_made_up_names(given: Graph) -> Graph:
    """The graph with `*` for the random ends of names that the engine makes up: an update keeps those that stand."""
    made_up = {
        value: f"{resource.name}-*"
        for resource in given.values()
        for value in (*resource.inputs.values(), (resource.inputs.get("metadata") or {}).get("name"))
        if isinstance(value, str)
        and value.startswith(f"{resource.name}-")
        and _RANDOM.fullmatch(value, len(resource.name) + 1)
    }
    if not made_up:
        return given

    def settled(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: settled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [settled(inner) for inner in value]
        return made_up.get(value, value) if isinstance(value, str) else value

    return {urn: replace(resource, inputs=settled(resource.inputs)) for urn, resource in given.items()}


def _renamed(before: Graph, after: Graph) -> dict[str, str]:
    """The resources that were known under another URN, and say so."""
    return {
        urn: alias
        for urn, resource in after.items()
        if urn not in before
        for alias in resource.aliases
        if alias in before and alias not in after
    }


def _differing(old: Resource, new: Resource) -> Change | None:
    if old.inputs == new.inputs or not new.custom:
        return None
    found, sureness = _paths(old, new)
    paths = {
        path: replaces or _under(path, new.replaced_by)
        for path, replaces in found.items()
        if not _under(path, new.ignores)
    }
    if not paths:
        return None
    replacing = tuple(path for path, replaces in paths.items() if replaces)
    if replacing:
        return Change("replace", new.urn, new.type, replacing, sureness)
    return Change("update", new.urn, new.type, tuple(paths), sureness)


def _under(path: str, wanted: tuple[str, ...]) -> bool:
    """Whether a path is one of some others, or below one; `*` is all of them."""
    return any(one in ("*", path) or path.startswith((f"{one}.", f"{one}[")) for one in wanted)


def _paths(old: Resource, new: Resource) -> tuple[dict[str, bool], Sureness]:
    """The inputs that differ, each with whether that replaces the resource, and how sure that is."""
    if new.type.startswith("kubernetes:"):
        return _in_kubernetes(old.inputs, new.inputs, new.type), "table"
    from agentenv.rehearsal.providers.aws import diff, shapes
    from agentenv.rehearsal.providers.aws.rows import TABLE

    row = TABLE.get(new.type)
    if row is None:
        differing = sorted(key for key in {*old.inputs, *new.inputs} if old.inputs.get(key) != new.inputs.get(key))
        return dict.fromkeys(differing, False), "guess"
    found = diff.changes(row, shapes.shape(new.type), old.inputs, new.inputs)
    return {_written(change.path): change.replaces for change in found}, "table"


def _in_kubernetes(old: Mapping[str, Any], new: Mapping[str, Any], kind: str) -> dict[str, bool]:
    from agentenv.rehearsal.providers.kubernetes import diff, replacing

    fixed = replacing.fixed(new, replacing.Mutability(), patch=kind.endswith("Patch"))
    return {_written(change.path): replacing.touches(change.path, fixed) for change in diff.changes(old, new)}


def _brought_along(after: Graph, found: dict[str, Change]) -> None:
    """Add what hangs on something that is replaced: an id that it cannot change in place is another one then.

    Resources come after what they depend on, so that one pass is enough.
    """
    for urn, resource in after.items():
        known = found.get(urn)
        if resource.plumbing or not resource.custom or (known is not None and known.operation in {"create", "replace"}):
            continue
        moved = sorted(
            key
            for key, sources in resource.property_dependencies.items()
            if unknown_paths(resource.inputs.get(key))
            and any(source in found and found[source].operation == "replace" for source in sources)
        )
        if not moved:
            continue
        old = replace(resource, inputs={**resource.inputs, **{key: _other(resource.inputs[key]) for key in moved}})
        assumed = _differing(old, resource)
        if assumed is not None and (known is None or assumed.operation == "replace"):
            found[urn] = replace(assumed, sureness="follows")


def _other(value: Any) -> Any:
    """The value with everything unknown in it being something else."""
    if isinstance(value, Mapping):
        return {key: _other(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_other(inner) for inner in value]
    return f"another {value}" if unknown_paths(value) else value


def _written(path: tuple[str | int, ...]) -> str:
    """A path as people write it."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif any(mark in step for mark in "./[]"):
            text += f'["{step}"]'
        else:
            text += f".{step}" if text else step
    return text
