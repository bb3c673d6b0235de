"""Carrying out a row: create, read, update and delete, with the waits between and the errors told whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.providers.aws import api_calls as calls
from agentenv.rehearsal.providers.aws import auto_naming as naming
from agentenv.rehearsal.providers.aws import diff
from agentenv.rehearsal.providers.aws import name_mapping as spelling
from agentenv.rehearsal.providers.aws import tags as tagging
from agentenv.rehearsal.providers.aws.api_calls import CloudError
from agentenv.rehearsal.providers.aws.outputs import look, outputs
from agentenv.rehearsal.providers.aws.paths import pick
from agentenv.rehearsal.providers.aws.row import Call, Do, Look, Until

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation


class Gone(Exception):
    """The resource is not there."""


class Partial(Exception):
    """The resource was made, and then something failed."""

    def __init__(self, id_: str, outputs: dict[str, Any], reason: str) -> None:
        super().__init__(reason)
        self.id = id_
        self.outputs = outputs


# -- calls ------------------------------------------------------------------------------------------------------------


def parameters(s: Situation, call: Call) -> dict[str, Any]:
    """The operation's members from the inputs it takes and from what it is given besides."""
    members = calls.members(call.service or s.row.service, call.operation)
    out: dict[str, Any] = {}
    for name in call.takes if call.takes is not None else tuple(s.shape.inputs):
        value = s.inputs.get(name)
        if name in {"tags", "region"} or name in s.row.refused:
            continue
        if value is None:
            if s.creating or name not in s.changed:
                continue
            value = _cleared(s, name)
            if value is None:
                continue
        found = call.names.get(name) or spelling.member(members, name)
        if found is None or found not in members:
            continue  # another step uses it: the conformance test sees to it that one does
        turned = call.turns[name](value) if name in call.turns else value
        out[found] = spelling.send(turned, members[found], call.names, name)
    for key, given in call.given.items():
        filled = s.fill(given)
        if filled is not None:
            out[key] = filled
    return out


def _cleared(s: Situation, name: str) -> Any:
    """What to send for an input that was taken out: its default, else the empty value of its type."""
    if name in s.row.defaults:
        return s.row.defaults[name]
    kind = s.shape.inputs[name].type
    if isinstance(kind, list):
        return [] if kind[0] == "array" else {}
    return {"s": "", "b": False}.get(kind) if isinstance(kind, str) else None


def step(s: Situation, one: Call | Do) -> None:
    if isinstance(one, Do):
        one.run(s)
    elif one.when is None or one.when(s):
        s.call(one.operation, forgives=one.forgives, service=one.service, **parameters(s, one))


# -- waiting -----------------------------------------------------------------------------------------------------------


def _await(s: Situation, until: Until) -> dict[str, Any]:
    """Look until it is ready; what it says meanwhile is part of the error if it never is."""
    said = "nothing"
    for _ in s.tries():
        document = look(s)
        if document is not None:
            said = str(pick(until.at, document))
            if said in until.wants:
                return document
            if said in until.fails:
                break
    raise CloudError(
        s.row.service, "wait", "NotReady", f"{s.id} is {said}, not {' or '.join(until.wants)} (waited {s.patience:g} s)"
    )


def settled(s: Situation) -> dict[str, Any]:
    """What is known once it is ready, or at least there."""
    if s.row.ready:
        return _await(s, s.row.ready)
    for _ in s.tries():
        document = look(s)
        if document is not None:
            return document
    raise CloudError(s.row.service, "read", "NotFound", f"{s.id} was made and cannot be found")


# -- the four verbs ---------------------------------------------------------------------------------------------------


def create(s: Situation) -> dict[str, Any]:
    """Make it. Once it exists, any failure carries its id (`Partial`)."""
    row = s.row
    s.creating = True
    s.inputs = naming.from_prefix(row, s.inputs)
    work = row.create
    if isinstance(work, Call):
        sent = {**parameters(s, work), **tagging.at_create(s)}
        answer = s.insist(lambda: s.call(work.operation, service=work.service, **sent), row.early)
    else:
        answer = s.insist(lambda: work.run(s), row.early)
    s.id = row.id(s, answer) if callable(row.id) else _identified(s, row.id, answer)
    try:
        for one in row.sets:
            if _wanted(s, one):
                if row.ready:
                    _await(s, row.ready)
                step(s, one)
        if row.tags and not row.tags.create and s.inputs.get("tags"):
            tagging.put(s, s.inputs["tags"])
        return outputs(s, settled(s))
    except CloudError as error:
        raise Partial(s.id, _what_is(s), str(error)) from None


def _identified(s: Situation, told: str, answer: Mapping[str, Any]) -> str:
    found = s.fill(told) if told.startswith("$") else pick(told, answer)
    if not found:
        raise CloudError(s.row.service, "create", "NoId", f"the answer has no {told}: {dict(answer)}")
    return str(found)


def _wanted(s: Situation, one: Call | Do) -> bool:
    return (isinstance(one, Do) and one.always) or any(
        s.inputs.get(name) is not None and s.inputs[name] != s.row.defaults.get(name) for name in one.takes or ()
    )


def _what_is(s: Situation) -> dict[str, Any]:
    """The outputs of something half made: as they are, not as they were asked for."""
    try:
        document = look(s)
        return outputs(s, document) if document is not None else dict(s.inputs)
    except CloudError:
        later = {name for one in s.row.sets for name in one.takes or ()}
        return {k: v for k, v in s.inputs.items() if k not in later}


def read(s: Situation) -> dict[str, Any]:
    document = look(s)
    if document is None:
        raise Gone(s.id)
    return outputs(s, document)


def update(s: Situation) -> dict[str, Any]:
    """Change in place what changed, be it against the old inputs or against what an interrupted create left."""
    for name, fact in s.shape.inputs.items():
        if s.row.name and name == s.row.name.input and s.inputs.get(name) is None:
            s.inputs[name] = s.state.get(name)
        if name in s.inputs and name not in s.row.unread and name in s.shape.outputs:
            now = s.state.get(name)
            if not diff.same(s.row, fact.type, s.inputs[name], now, name, partial=True):
                s.changed |= {name}
    for one in s.row.sets:
        if s.changed & frozenset(one.takes or ()):
            step(s, one)
            if s.row.ready:
                _await(s, s.row.ready)
    if s.row.tags and "tags" in s.changed:
        tagging.change(s, s.state.get("tagsAll") or s.old.get("tags") or {}, s.inputs.get("tags") or {})
    return outputs(s, settled(s))


def delete(s: Situation) -> None:
    """Take it away; that it is gone already is as good."""
    gone = set(s.row.find.gone) if isinstance(s.row.find, Look) else set[str]()
    for one in s.row.delete:
        try:
            s.insist(lambda one=one: step(s, one), s.row.busy)
        except CloudError as error:
            if error.code not in gone:
                raise
    if s.row.ends:
        for _ in s.tries():
            if look(s) is None:
                return
        raise CloudError(s.row.service, "wait", "NotGone", f"{s.id} is still there (waited {s.patience:g} s)")
