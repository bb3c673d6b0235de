"""Carrying out a row: create, read, update and delete, with the waits between and the errors told whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rehearsal.aws import calls, diff, kinds, naming, spelling, tagging
from rehearsal.aws.calls import CloudError
from rehearsal.aws.row import Call, Do, Form, Look, Row, Until

if TYPE_CHECKING:
    from rehearsal.aws.situation import Situation

ZERO: Final = {"s": "", "b": False, "i": 0, "n": 0}


class Gone(Exception):
    """The resource is not there."""


class Partial(Exception):
    """The resource was made, and then something failed."""

    def __init__(self, id_: str, outputs: dict[str, Any], reason: str) -> None:
        super().__init__(reason)
        self.id = id_
        self.outputs = outputs


def pick(expression: str, document: Any) -> Any:
    import jmespath

    return jmespath.search(expression, document)


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


# -- looking ----------------------------------------------------------------------------------------------------------


def look(s: Situation) -> dict[str, Any] | None:
    """All that the service says of the resource, or nothing if it is gone."""
    row = s.row
    found = _ask(s, row.find) if isinstance(row.find, Look) else row.find(s)
    if found is None:
        return None
    document = dict(found)
    if row.gone is not None and str(pick(row.gone.at, document)) in row.gone.wants:
        return None
    for further in row.also:
        if isinstance(further, Look):
            more = _ask(s, further)
            if more is not None:
                document.update({k: pick(v, more) for k, v in further.puts.items()} if further.puts else more)
        else:
            document.update(further(s, document))
    return document


def _ask(s: Situation, one: Look) -> dict[str, Any] | None:
    try:
        answer = s.call(one.operation, service=one.service, **{k: s.fill(v) for k, v in one.given.items()})
    except CloudError as error:
        if error.code in one.gone:
            return None
        raise
    found = answer if one.at == "@" else pick(one.at, answer)
    return found if found or found == {} else None


def outputs(s: Situation, document: Mapping[str, Any]) -> dict[str, Any]:
    """What the SDK calls the resource's outputs, from all that is known of it."""
    row, out = s.row, dict[str, Any]()
    forms: dict[str, Form] = {}
    for name, fact in s.shape.outputs.items():
        shown = row.shows.get(name)
        if name in {"tags", "tagsAll"} and row.tags:
            continue
        if isinstance(shown, Form):
            forms[name] = shown
            continue
        if name in row.unread:
            value = s.inputs.get(name, s.state.get(name))
        elif shown is None:
            value = spelling.find(document, name)[1]
        else:
            value = shown(s, document) if callable(shown) else pick(shown, document)
        value = spelling.receive(value, fact.type, row.names, name)
        if value is None and fact.required:
            value = [] if isinstance(fact.type, list) and fact.type[0] == "array" else None
            value = ZERO.get(fact.type) if isinstance(fact.type, str) else value
        if value is not None:
            out[name] = value
    if row.regional and "region" in s.shape.outputs:
        out["region"] = s.region
    if row.tags:
        out["tags"] = out["tagsAll"] = tagging.told(s, document)
    for name, form in forms.items():
        out[name] = s.form(form, out)
    if row.repairs:
        row.repairs(s, document, out)
    return out


def inputs_of(s: Situation, told: Mapping[str, Any], *, importing: bool) -> dict[str, Any]:
    """The inputs as the cloud has them: as they were written where nothing changed, else as they are now."""
    out: dict[str, Any] = {k: v for k, v in s.old.items() if k.startswith("__")}
    for name, fact in s.shape.inputs.items():
        before, now = s.old.get(name), told.get(name)
        if before is None and (name in s.row.refused or name in s.row.twins):
            continue
        if name in s.row.unread or (name not in s.shape.outputs and before is not None):
            kept = before if before is not None else s.row.defaults.get(name) if importing else None
            if kept is not None:
                out[name] = kept
            continue
        if before is not None:
            if diff.same(s.row, fact.type, before, now, name, partial=True):
                out[name] = before
            elif now is not None:
                out[name] = _trimmed(s.row, fact.type, now, name)
        elif not kinds.empty(_trimmed(s.row, fact.type, now, name)) and now != s.row.defaults.get(name):
            if (importing and name != "region") or (not s.shape.computed(name) and not fact.required):
                out[name] = _trimmed(s.row, fact.type, now, name)
        elif importing and now is not None and name in s.row.defaults:
            out[name] = now
    if s.row.name and importing:
        out.pop(s.row.name.prefix_input, None)
    return out


def _trimmed(row: Row, kind: Any, value: Any, dotted: str) -> Any:
    """As a program would write it: without the parts that are empty, and those that only the cloud says."""
    if isinstance(kind, dict) and isinstance(value, dict):
        said = {
            key: _trimmed(row, kind[key]["t"], item, f"{dotted}.{key}")
            for key, item in value.items()
            if key in kind and f"{dotted}.{key}" not in row.fills
        }
        return {key: item for key, item in said.items() if not kinds.left_out(item) and item is not False}
    if isinstance(kind, list) and kind[0] == "array" and isinstance(value, list):
        return [_trimmed(row, kind[1], item, dotted) for item in value]
    return value


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
