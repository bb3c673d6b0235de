"""Tags, as each service takes them: with the create, later one by one, and in the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.providers.aws.paths import pick

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation
    from agentenv.rehearsal.providers.aws.row import Tags


def _written(rule: Tags, tags: Mapping[str, str]) -> Any:
    if rule.pair is None:
        return dict(tags)
    key, value = rule.pair
    return [{key: k, value: v} for k, v in sorted(tags.items())]


def at_create(s: Situation) -> dict[str, Any]:
    """The create's member that holds the tags, if the operation has one."""
    rule, tags = s.row.tags, s.inputs.get("tags")
    if not rule or not rule.create or not tags:
        return {}
    if rule.kind:
        return {rule.create: [{"ResourceType": rule.kind, "Tags": _written(rule, tags)}]}
    return {rule.create: _written(rule, tags)}


def put(s: Situation, tags: Mapping[str, str]) -> None:
    rule = s.row.tags
    if rule and tags:
        written = _written(rule, tags)
        said = {rule.whole: written} if rule.whole else written
        s.call(rule.put, service=rule.service, **_on(s, rule), **{rule.member: said})


def _on(s: Situation, rule: Tags) -> dict[str, Any]:
    return {key: s.fill(given) for key, given in rule.on.items()}


def change(s: Situation, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Take away the keys that went, then put what is new or different."""
    rule = s.row.tags
    if not rule:
        return
    if rule.whole:
        if new:
            put(s, new)
        else:
            s.call(rule.drop, service=rule.service, **_on(s, rule))
        return
    went = sorted(key for key in old if key not in new and s.cloud.access.own_tag(key))
    if went:
        keys: Any = [{"Key": key} for key in went] if rule.keys == rule.member else went
        s.call(rule.drop, service=rule.service, **_on(s, rule), **{rule.keys: keys})
    put(s, {key: value for key, value in new.items() if old.get(key) != value})


def told(s: Situation, document: Mapping[str, Any]) -> dict[str, str]:
    """The tags the service tells, without AWS's own."""
    rule = s.row.tags
    found = pick(rule.at, document) if rule else None
    if isinstance(found, Mapping):
        pairs = dict(found)
    else:
        key, value = rule.pair if rule and rule.pair else ("Key", "Value")
        pairs = {item[key]: item.get(value, "") for item in found or []}
    return {str(k): str(v) for k, v in pairs.items() if s.cloud.access.own_tag(str(k))}
