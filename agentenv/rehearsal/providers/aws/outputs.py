"""Read a resource from the service: its outputs, and the inputs that a program would have for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import diff, name_mapping, tags, value_kinds
from agentenv.rehearsal.providers.aws.api_calls import CloudError, pick
from agentenv.rehearsal.providers.aws.row import ReadCall, ResourceType, Template

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

ZERO_VALUES: Final = {"s": "", "b": False, "i": 0, "n": 0}


def read_document(op: Operation) -> dict[str, Any] | None:
    """Return all that the service returns about the resource, or None if it does not exist."""
    row = op.row
    first = _read(op, row.read) if isinstance(row.read, ReadCall) else row.read(op)
    if first is None:
        return None
    document = dict(first)
    if row.deleted_state is not None and str(pick(row.deleted_state.path, document)) in row.deleted_state.expected:
        return None
    for next_read in row.more_reads:
        if isinstance(next_read, ReadCall):
            more = _read(op, next_read)
            if more is not None:
                document.update({k: pick(v, more) for k, v in next_read.fields.items()} if next_read.fields else more)
        else:
            document.update(next_read(op, document))
    return document


def _read(op: Operation, call: ReadCall) -> dict[str, Any] | None:
    try:
        response = op.call(
            call.operation, service=call.service, **{k: op.resolve(v) for k, v in call.constants.items()}
        )
    except CloudError as error:
        if error.code in call.not_found_errors:
            return None
        raise
    part = response if call.path == "@" else pick(call.path, response)
    return part if part or part == {} else None


def outputs(op: Operation, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of the resource, under the SDK's names, from its document."""
    row, out = op.row, dict[str, Any]()
    templates: dict[str, Template] = {}
    for name, fact in op.shape.outputs.items():
        source = row.output_sources.get(name)
        if name in {"tags", "tagsAll"} and row.tags:
            continue
        if isinstance(source, Template):
            templates[name] = source
            continue
        if name in row.write_only:
            value = op.inputs.get(name, op.state.get(name))
        elif source is None:
            value = name_mapping.find(document, name)[1]
        else:
            value = source(op, document) if callable(source) else pick(source, document)
        value = name_mapping.receive(value, fact.type, row.member_names, name)
        if value is None and fact.required:
            value = [] if isinstance(fact.type, list) and fact.type[0] == "array" else None
            value = ZERO_VALUES.get(fact.type) if isinstance(fact.type, str) else value
        if value is not None:
            out[name] = value
    if row.regional and "region" in op.shape.outputs:
        out["region"] = op.region
    if row.tags:
        out["tags"] = out["tagsAll"] = tags.read_tags(op, document)
    for name, template in templates.items():
        out[name] = op.format(template, out)
    if row.adjust_outputs:
        row.adjust_outputs(op, document, out)
    return out


def read_inputs(op: Operation, outputs: Mapping[str, Any], *, importing: bool) -> dict[str, Any]:
    """Return the inputs that match the outputs: the old value where it still means the same, else the current one."""
    out: dict[str, Any] = {k: v for k, v in op.old_inputs.items() if k.startswith("__")}
    for name, fact in op.shape.inputs.items():
        before, current = op.old_inputs.get(name), outputs.get(name)
        if before is None and (name in op.row.unsupported or name in op.row.duplicate_inputs):
            continue
        if name in op.row.write_only or (name not in op.shape.outputs and before is not None):
            value = before if before is not None else op.row.defaults.get(name) if importing else None
            if value is not None:
                out[name] = value
            continue
        if before is not None:
            if diff.equal(op.row, fact.type, before, current, name, partial=True):
                out[name] = before
            elif current is not None:
                out[name] = _as_input(op.row, fact.type, current, name)
        elif not value_kinds.empty(_as_input(op.row, fact.type, current, name)) and current != op.row.defaults.get(
            name
        ):
            compared = not (op.shape.computed(name) or fact.required or name in op.row.compared_if_set)
            if compared or (importing and name != "region"):
                out[name] = _as_input(op.row, fact.type, current, name)
        elif importing and current is not None and name in op.row.defaults:
            out[name] = current
    if op.row.auto_name and importing:
        out.pop(op.row.auto_name.prefix_input, None)
    return out


def _as_input(row: ResourceType, kind: Any, value: Any, dotted: str) -> Any:
    """Return a value as a program would set it: without empty parts and parts that only the service sets."""
    if isinstance(kind, dict) and isinstance(value, dict):
        parts = {
            key: _as_input(row, kind[key]["t"], item, f"{dotted}.{key}")
            for key, item in value.items()
            if key in kind and f"{dotted}.{key}" not in row.computed
        }
        return {key: item for key, item in parts.items() if not value_kinds.unset(item) and item is not False}
    if isinstance(kind, list) and kind[0] == "array" and isinstance(value, list):
        return [_as_input(row, kind[1], item, dotted) for item in value]
    return value
