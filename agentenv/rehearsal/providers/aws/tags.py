"""Tags in the form each service takes: at create, in later updates, and in responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.providers.aws.api_calls import pick

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation
    from agentenv.rehearsal.providers.aws.row import Tagging


def _tag_list(rule: Tagging, tags: Mapping[str, str]) -> Any:
    if rule.key_value_members is None:
        return dict(tags)
    key, value = rule.key_value_members
    return [{key: k, value: v} for k, v in sorted(tags.items())]


def create_parameters(op: Operation) -> dict[str, Any]:
    """Return the member of the create that has the tags, if the operation has one."""
    rule, tags = op.row.tags, op.inputs.get("tags")
    if not rule or not rule.create_member or not tags:
        return {}
    if rule.resource_kind:
        return {rule.create_member: [{"ResourceType": rule.resource_kind, "Tags": _tag_list(rule, tags)}]}
    return {rule.create_member: _tag_list(rule, tags)}


def put_tags(op: Operation, tags: Mapping[str, str]) -> None:
    """Add or overwrite tags."""
    rule = op.row.tags
    if rule and tags:
        tag_list = _tag_list(rule, tags)
        value = {rule.wrapper: tag_list} if rule.wrapper else tag_list
        op.call(rule.tag_operation, service=rule.service, **_identifiers(op, rule), **{rule.tags_member: value})


def _identifiers(op: Operation, rule: Tagging) -> dict[str, Any]:
    return {key: op.resolve(constant) for key, constant in rule.constants.items()}


def update_tags(op: Operation, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Remove the keys that are no longer set, then put the new and changed tags."""
    rule = op.row.tags
    if not rule:
        return
    if rule.wrapper:
        if new:
            put_tags(op, new)
        else:
            op.call(rule.untag_operation, service=rule.service, **_identifiers(op, rule))
        return
    removed = sorted(key for key in old if key not in new and op.cloud.access.manages_tag(key))
    if removed:
        keys: Any = [{"Key": key} for key in removed] if rule.keys_member == rule.tags_member else removed
        op.call(rule.untag_operation, service=rule.service, **_identifiers(op, rule), **{rule.keys_member: keys})
    put_tags(op, {key: value for key, value in new.items() if old.get(key) != value})


def read_tags(op: Operation, document: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of the resource, without those of AWS and the ignored ones."""
    rule = op.row.tags
    listed = pick(rule.path, document) if rule else None
    if isinstance(listed, Mapping):
        pairs = dict(listed)
    else:
        key, value = rule.key_value_members if rule and rule.key_value_members else ("Key", "Value")
        pairs = {item[key]: item.get(value, "") for item in listed or []}
    return {str(k): str(v) for k, v in pairs.items() if op.cloud.access.manages_tag(str(k))}
