"""Create, read, update and delete a resource as its row describes, with the waits between the calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.providers.aws import api_calls, auto_naming, diff, name_mapping, tags
from agentenv.rehearsal.providers.aws.api_calls import CloudError, pick
from agentenv.rehearsal.providers.aws.outputs import outputs, read_document
from agentenv.rehearsal.providers.aws.row import Call, CustomStep, ReadCall, StateCheck

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation


class NotFound(Exception):
    """The resource does not exist."""


class PartialCreate(Exception):
    """The resource was created, and a later step failed."""

    def __init__(self, id_: str, outputs: dict[str, Any], reason: str) -> None:
        super().__init__(reason)
        self.id = id_
        self.outputs = outputs


# -- calls ------------------------------------------------------------------------------------------------------------


def parameters(op: Operation, call: Call) -> dict[str, Any]:
    """Return the members of the request: the inputs the call sends, and its constants."""
    members = api_calls.members(call.service or op.row.service, call.operation)
    out: dict[str, Any] = {}
    for name in call.inputs if call.inputs is not None else tuple(op.shape.inputs):
        value = op.inputs.get(name)
        if name in {"tags", "region"} or name in op.row.unsupported:
            continue
        if value is None:
            if op.creating or name not in op.changed:
                continue
            value = _empty_value(op, name)
            if value is None:
                continue
        member = call.member_names.get(name) or name_mapping.member(members, name)
        if member is None or member not in members:
            continue  # another step sends it: the conformance test checks that one does
        converted = call.convert[name](value) if name in call.convert else value
        out[member] = name_mapping.send(converted, members[member], call.member_names, name)
    for key, constant in call.constants.items():
        resolved = op.resolve(constant)
        if resolved is not None:
            out[key] = resolved
    return out


def _empty_value(op: Operation, name: str) -> Any:
    """Return what to send for an input that was removed: its default, else the empty value of its type."""
    if name in op.row.defaults:
        return op.row.defaults[name]
    kind = op.shape.inputs[name].type
    if isinstance(kind, list):
        return [] if kind[0] == "array" else {}
    return {"s": "", "b": False}.get(kind) if isinstance(kind, str) else None


def run_step(op: Operation, step: Call | CustomStep) -> None:
    """Run one step of a row, unless its condition is false."""
    if isinstance(step, CustomStep):
        step.run(op)
    elif step.condition is None or step.condition(op):
        op.call(step.operation, ignored_errors=step.ignored_errors, service=step.service, **parameters(op, step))


# -- waiting -----------------------------------------------------------------------------------------------------------


def _wait_for(op: Operation, check: StateCheck) -> dict[str, Any]:
    """Read the resource until it is in an expected state. The last state is part of the error."""
    state = "nothing"
    for _ in op.attempts():
        document = read_document(op)
        if document is not None:
            state = str(pick(check.path, document))
            if state in check.expected:
                return document
            if state in check.failed:
                break
    raise CloudError(
        op.row.service,
        "wait",
        "NotReady",
        f"{op.id} is {state}, not {' or '.join(check.expected)} (waited {op.timeout:g} s)",
    )


def wait_until_ready(op: Operation) -> dict[str, Any]:
    """Return the resource's document once it is ready, or at least exists."""
    if op.row.ready:
        return _wait_for(op, op.row.ready)
    for _ in op.attempts():
        document = read_document(op)
        if document is not None:
            return document
    raise CloudError(op.row.service, "read", "NotFound", f"{op.id} was created and cannot be found")


# -- create, read, update, delete -------------------------------------------------------------------------------------


def create(op: Operation) -> dict[str, Any]:
    """Create the resource. Once it exists, any error carries its id (`PartialCreate`)."""
    row = op.row
    op.creating = True
    op.inputs = auto_naming.with_name_from_prefix(row, op.inputs)
    create_step = row.create
    if isinstance(create_step, Call):
        sent = {**parameters(op, create_step), **tags.create_parameters(op)}
        response = op.retry(
            lambda: op.call(create_step.operation, service=create_step.service, **sent), row.retry_create_on
        )
    else:
        response = op.retry(lambda: create_step.run(op), row.retry_create_on)
    op.id = row.id(op, response) if callable(row.id) else _resource_id(op, row.id, response)
    try:
        for step in row.updates:
            if _needed_at_create(op, step):
                if row.ready:
                    _wait_for(op, row.ready)
                run_step(op, step)
        if row.tags and not row.tags.create_member and op.inputs.get("tags"):
            tags.put_tags(op, op.inputs["tags"])
        return outputs(op, wait_until_ready(op))
    except CloudError as error:
        raise PartialCreate(op.id, _partial_outputs(op), str(error)) from None


def _resource_id(op: Operation, path: str, response: Mapping[str, Any]) -> str:
    id_ = op.resolve(path) if path.startswith("$") else pick(path, response)
    if not id_:
        raise CloudError(op.row.service, "create", "NoId", f"the response has no {path}: {dict(response)}")
    return str(id_)


def _needed_at_create(op: Operation, step: Call | CustomStep) -> bool:
    """Return whether an input of the step has a value that the create does not give it."""
    return (isinstance(step, CustomStep) and step.always) or any(
        op.inputs.get(name) is not None and op.inputs[name] != op.row.defaults.get(name) for name in step.inputs or ()
    )


def _partial_outputs(op: Operation) -> dict[str, Any]:
    """Return the actual outputs of a resource whose create failed half way."""
    try:
        document = read_document(op)
        return outputs(op, document) if document is not None else dict(op.inputs)
    except CloudError:
        later = {name for step in op.row.updates for name in step.inputs or ()}
        return {k: v for k, v in op.inputs.items() if k not in later}


def read(op: Operation) -> dict[str, Any]:
    """Return the outputs of the resource as the service has it."""
    document = read_document(op)
    if document is None:
        raise NotFound(op.id)
    return outputs(op, document)


def update(op: Operation) -> dict[str, Any]:
    """Update in place what differs from the old inputs, or from what an interrupted create left."""
    for name, fact in op.shape.inputs.items():
        if op.row.auto_name and name == op.row.auto_name.input and op.inputs.get(name) is None:
            op.inputs[name] = op.state.get(name)
        if name in op.inputs and name not in op.row.write_only and name in op.shape.outputs:
            current = op.state.get(name)
            if not diff.equal(op.row, fact.type, op.inputs[name], current, name, partial=True):
                op.changed |= {name}
    for step in op.row.updates:
        if op.changed & frozenset(step.inputs or ()):
            run_step(op, step)
            if op.row.ready:
                _wait_for(op, op.row.ready)
    if op.row.tags and "tags" in op.changed:
        tags.update_tags(op, op.state.get("tagsAll") or op.old_inputs.get("tags") or {}, op.inputs.get("tags") or {})
    return outputs(op, wait_until_ready(op))


def delete(op: Operation) -> None:
    """Delete the resource. One that no longer exists is not an error."""
    not_found = set(op.row.read.not_found_errors) if isinstance(op.row.read, ReadCall) else set[str]()
    for step in op.row.delete:
        try:
            op.retry(lambda step=step: run_step(op, step), op.row.retry_delete_on)
        except CloudError as error:
            if error.code not in not_found:
                raise
    if op.row.wait_until_deleted:
        for _ in op.attempts():
            if read_document(op) is None:
                return
        raise CloudError(op.row.service, "wait", "NotGone", f"{op.id} still exists (waited {op.timeout:g} s)")
