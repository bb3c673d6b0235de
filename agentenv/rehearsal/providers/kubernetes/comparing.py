"""The diff of an object: its changes, and whether they force a replacement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentenv.rehearsal.providers.kubernetes import checkpoint, diff, naming, objects, readiness, replacing
from agentenv.rehearsal.providers.kubernetes.checking import Scope
from agentenv.rehearsal.providers.kubernetes.diff import Change
from agentenv.rehearsal.providers.kubernetes.discovery import canonical
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.urns import Resource
from agentenv.rehearsal.providers.kubernetes.values import Path, PropertyMap, format_path, to_api

UNREADY: Path = ("metadata", "annotations", objects.REPLACE_UNREADY)


@dataclass(frozen=True)
class DiffResult:
    """The changes, those that force a replacement, and whether to delete before replacing."""

    changes: list[Change]
    replaces: list[Change]
    delete_before_replace: bool

    def replacing(self, change: Change) -> bool:
        return change in self.replaces


def compare(
    resource: Resource,
    state: PropertyMap,
    old: PropertyMap,
    news: PropertyMap,
    *,
    scope: Scope,
    mutability: replacing.Mutability,
    ignored: tuple[str, ...] = (),
    unready: bool = False,
) -> DiffResult:
    """Compare the old inputs with the new. `unready`: replace the object, because it never became ready."""
    live = checkpoint.live_object(state.values)
    before = _normalized(to_api(old.values or checkpoint.state_inputs(state.values)), scope)
    after = _normalized(to_api(news.values), scope)
    if not objects.metadata(before).get("name") and objects.name(live):
        before = objects.with_metadata(before, name=objects.name(live))
    changes = [c for c in diff.changes(before, after) if not _ignored(c.path, ignored)]
    fixed = replacing.fixed(after, mutability, patch=resource.patches(objects.kind(after)))
    replaces = [c for c in changes if replacing.touches(c.path, fixed) or _other_group(c, before, after)]
    if unready:
        changes.append(Change(UNREADY, "update"))
        replaces.append(changes[-1])
    return DiffResult(changes, replaces, bool(replaces) and naming.keeps_explicit_name(after, live or before))


def _normalized(obj: Object, scope: Scope) -> Object:
    """Return an object without differences in form: the default namespace, `core/v1`, read-only fields."""
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
    return any(text == prefix or text.startswith((f"{prefix}.", f"{prefix}[")) for prefix in ignored)
