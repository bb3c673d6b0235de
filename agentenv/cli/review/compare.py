"""Compare two graphs, and predict what an update would do: by URN, by inputs, and by the tables of the stand-ins.

The tables list the inputs that a service cannot update in place; the official plugins use the same schema. A value that
is unknown in both graphs counts as unchanged, unless its source is replaced: then the value changes too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentenv.cli.review.changes import Change, Sureness
from agentenv.cli.review.graph import Graph, Resource, unknown_paths

_RANDOM = re.compile(r"[0-9a-z]{7,8}")


def compare_graphs(before: Graph, after: Graph) -> list[Change]:
    """Return every change from one graph to the other, in the order of the new graph, with deletions last."""
    before, after = _without_auto_names(before), _without_auto_names(after)
    renamed = _renamed(before, after)
    found: dict[str, Change] = {}
    for urn, resource in after.items():
        if resource.internal:
            continue
        old = before.get(renamed.get(urn, urn))
        change = Change("create", urn, resource.type, (), "shown") if old is None else _change(old, resource)
        if change is not None:
            found[urn] = change
    _add_dependent_replacements(after, found)
    remaining = {*after, *renamed.values()}
    deleted = [Change("delete", urn, old.type, (), "shown") for urn, old in before.items() if urn not in remaining]
    return [*found.values(), *(change for change in deleted if not before[change.urn].internal)]


def count_unknown_in_both(before: Graph, after: Graph) -> int:
    """Return the number of values that are unknown in both graphs, and cannot be compared."""
    return sum(
        len(set(unknown_paths(old.inputs)) & set(unknown_paths(new.inputs)))
        for urn, new in after.items()
        if (old := before.get(urn)) is not None and not new.internal
    )


def _without_auto_names(graph: Graph) -> Graph:
    """Return the graph with `*` for the random suffix of auto-named resources: an update keeps existing names."""
    names = {
        value: f"{resource.name}-*"
        for resource in graph.values()
        for value in (*resource.inputs.values(), (resource.inputs.get("metadata") or {}).get("name"))
        if isinstance(value, str)
        and value.startswith(f"{resource.name}-")
        and _RANDOM.fullmatch(value, len(resource.name) + 1)
    }
    if not names:
        return graph

    def settled(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: settled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [settled(inner) for inner in value]
        return names.get(value, value) if isinstance(value, str) else value

    return {urn: replace(resource, inputs=settled(resource.inputs)) for urn, resource in graph.items()}


def _renamed(before: Graph, after: Graph) -> dict[str, str]:
    """Return the old URN of each resource that an alias renames."""
    return {
        urn: alias
        for urn, resource in after.items()
        if urn not in before
        for alias in resource.aliases
        if alias in before and alias not in after
    }


def _change(old: Resource, new: Resource) -> Change | None:
    if old.inputs == new.inputs or not new.custom:
        return None
    found, sureness = _changed_paths(old, new)
    paths = {
        path: replaces or _matches(path, new.replaced_by)
        for path, replaces in found.items()
        if not _matches(path, new.ignores)
    }
    if not paths:
        return None
    replacing = tuple(path for path, replaces in paths.items() if replaces)
    if replacing:
        return Change("replace", new.urn, new.type, replacing, sureness)
    return Change("update", new.urn, new.type, tuple(paths), sureness)


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a path is one of these paths, or below one; `*` matches every path."""
    return any(row in ("*", path) or path.startswith((f"{row}.", f"{row}[")) for row in patterns)


def _changed_paths(old: Resource, new: Resource) -> tuple[dict[str, bool], Sureness]:
    """Return the changed inputs, each with whether it forces replacement, and how certain that is."""
    if new.type.startswith("kubernetes:"):
        return _kubernetes_paths(old.inputs, new.inputs, new.type), "table"
    from agentenv.rehearsal.providers.aws import diff, shapes
    from agentenv.rehearsal.providers.aws.rows import TABLE

    row = TABLE.get(new.type)
    if row is None:
        differing = sorted(key for key in {*old.inputs, *new.inputs} if old.inputs.get(key) != new.inputs.get(key))
        return dict.fromkeys(differing, False), "guess"
    found = diff.changes(row, shapes.shape(new.type), old.inputs, new.inputs)
    return {_path_text(change.path): change.replaces for change in found}, "table"


def _kubernetes_paths(old: Mapping[str, Any], new: Mapping[str, Any], kind: str) -> dict[str, bool]:
    from agentenv.rehearsal.providers.kubernetes import diff, replacing

    fixed = replacing.fixed(new, replacing.Mutability(), patch=kind.endswith("Patch"))
    return {_path_text(change.path): replacing.touches(change.path, fixed) for change in diff.changes(old, new)}


def _add_dependent_replacements(after: Graph, found: dict[str, Change]) -> None:
    """Add the replacements that follow from the replacement of a dependency, whose new id is not updatable in place.

    Resources come after their dependencies, so that one pass is enough.
    """
    for urn, resource in after.items():
        known = found.get(urn)
        if resource.internal or not resource.custom or (known is not None and known.operation in {"create", "replace"}):
            continue
        changed = sorted(
            key
            for key, sources in resource.property_dependencies.items()
            if unknown_paths(resource.inputs.get(key))
            and any(source in found and found[source].operation == "replace" for source in sources)
        )
        if not changed:
            continue
        old = replace(
            resource,
            inputs={**resource.inputs, **{key: _with_unknowns_changed(resource.inputs[key]) for key in changed}},
        )
        assumed = _change(old, resource)
        if assumed is not None and (known is None or assumed.operation == "replace"):
            found[urn] = replace(assumed, sureness="follows")


def _with_unknowns_changed(value: Any) -> Any:
    """Return the value with every unknown value changed."""
    if isinstance(value, Mapping):
        return {key: _with_unknowns_changed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_unknowns_changed(inner) for inner in value]
    return f"another {value}" if unknown_paths(value) else value


def _path_text(path: tuple[str | int, ...]) -> str:
    """Return a path as text."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif any(mark in step for mark in "./[]"):
            text += f'["{step}"]'
        else:
            text += f".{step}" if text else step
    return text
