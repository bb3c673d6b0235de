"""What an update would change, and whether it can be made in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentenv.rehearsal.providers.kubernetes import checkpoint, diff, naming, objects, readiness, replacing
from agentenv.rehearsal.providers.kubernetes.checking import Scope
from agentenv.rehearsal.providers.kubernetes.diff import Change
from agentenv.rehearsal.providers.kubernetes.discovery import canonical
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.urns import Resource
from agentenv.rehearsal.providers.kubernetes.values import Bag, Path, format_path, to_api

UNREADY: Path = ("metadata", "annotations", objects.REPLACE_UNREADY)


@dataclass(frozen=True)
class Compared:
    """The changes, those of them that replace, and whether the old object has to go first."""

    changes: list[Change]
    replaces: list[Change]
    first_delete: bool

    def replacing(self, change: Change) -> bool:
        return change in self.replaces


def compare(
    resource: Resource,
    state: Bag,
    old: Bag,
    news: Bag,
    *,
    scope: Scope,
    mutability: replacing.Mutability,
    ignored: tuple[str, ...] = (),
    unready: bool = False,
) -> Compared:
    """From the old inputs to the new. `unready`: the object is to be made anew because it never became ready."""
    live = checkpoint.live_of(state.values)
    before = _comparable(to_api(old.values or checkpoint.inputs_of(state.values)), scope)
    after = _comparable(to_api(news.values), scope)
    if not objects.metadata(before).get("name") and objects.name(live):
        before = objects.with_metadata(before, name=objects.name(live))
    found = [c for c in diff.changes(before, after) if not _ignored(c.path, ignored)]
    fixed = replacing.fixed(after, mutability, patch=resource.patches(objects.kind(after)))
    replaces = [c for c in found if replacing.touches(c.path, fixed) or _other_group(c, before, after)]
    if unready:
        found.append(Change(UNREADY, "update"))
        replaces.append(found[-1])
    return Compared(found, replaces, bool(replaces) and naming.keeps_its_name(after, live or before))


def _comparable(obj: Object, scope: Scope) -> Object:
    """Without what differs only in how it is written: a default namespace, `core/v1`, what the server writes."""
    bare = objects.without_read_only(obj)
    version = bare.get("apiVersion")
    if isinstance(version, str):
        bare["apiVersion"] = canonical(version)
    if not isinstance(bare.get("metadata"), Mapping):
        return bare
    place = objects.metadata(bare).get("namespace")
    return objects.with_metadata(bare, namespace=None if scope(obj) is False else place or "default")


def _other_group(change: Change, before: Object, after: Object) -> bool:
    return change.path == ("apiVersion",) and readiness.key(before)[0] != readiness.key(after)[0]


def _ignored(path: Path, ignored: tuple[str, ...]) -> bool:
    text = format_path(path)
    return any(text == one or text.startswith((f"{one}.", f"{one}[")) for one in ignored)
