"""What the service says of a resource: its outputs, and the inputs that a program would have written for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import diff
from agentenv.rehearsal.providers.aws import name_mapping as spelling
from agentenv.rehearsal.providers.aws import tags as tagging
from agentenv.rehearsal.providers.aws import value_kinds as kinds
from agentenv.rehearsal.providers.aws.api_calls import CloudError
from agentenv.rehearsal.providers.aws.paths import pick
from agentenv.rehearsal.providers.aws.row import Form, Look, Row

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

ZERO: Final = {"s": "", "b": False, "i": 0, "n": 0}


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
            compared = not (s.shape.computed(name) or fact.required or name in s.row.undeclared)
            if compared or (importing and name != "region"):
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
