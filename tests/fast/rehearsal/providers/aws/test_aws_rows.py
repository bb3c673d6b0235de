"""Every row through a whole life: made, unchanged, changed, replaced, drifted, imported, deleted, deleted again."""

from typing import Any

import pytest

from agentenv.rehearsal.providers.aws import diff, rows, shapes
from agentenv.rehearsal.providers.aws.api_calls import Cloud
from agentenv.rehearsal.providers.aws.provider import Provider, row_and_shape
from agentenv.rehearsal.providers.common.property_values import UNKNOWN
from tests.fast.rehearsal.providers.aws.official import strange
from tests.fast.rehearsal.providers.aws.samples import OTHERS, SAMPLES
from tests.fast.rehearsal.providers.aws.samples.sample import Ground, Sample


def test_every_row_has_a_sample() -> None:
    assert set(SAMPLES) == set(rows.TABLE)


def checked(
    provider: Provider, token: str, inputs: dict[str, Any], old: dict[str, Any] | None = None
) -> dict[str, Any]:
    checked, problems = provider.check(token, "a-sample", inputs, old or {}, seed=b"")
    assert problems == []
    return checked


def changed_names(provider: Provider, token: str, old: dict[str, Any], new: dict[str, Any]) -> set[str]:
    return {str(change.path[0]) for change in provider.diff(token, old, new).changes}


def patched(inputs: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in {**inputs, **patch}.items() if v is not None}


class Life:
    """One resource of the cloud, and the steps of its life in order."""

    def __init__(self, provider: Provider, ground: Ground, token: str, sample: Sample) -> None:
        self.provider, self.ground, self.token, self.sample = provider, ground, token, sample
        self.row, self.shape = row_and_shape(token)
        self.inputs_sent = self.sample.inputs(ground)
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        self.id = ""

    def is_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inputs = checked(self.provider, self.token, self.inputs_sent)
        with monkeypatch.context() as silent:
            silent.setattr(Cloud, "call", refuse_calls)
            preview = self.provider.preview_create(self.token, self.inputs)
        self.id, self.outputs = self.provider.create(self.token, self.inputs)
        assert self.id
        assert strange(self.outputs, {n: {"t": f.type} for n, f in self.shape.outputs.items()}, self.token) == []
        for name, promised in preview.items():
            if promised is not UNKNOWN:
                kind = self.shape.outputs[name].type
                assert diff.equal(
                    self.row, kind, without_unknown(promised), self.outputs.get(name), name, partial=True
                ), name
        for name, value in self.inputs.items():
            if name in self.shape.outputs:
                kind = self.shape.inputs[name].type
                assert diff.equal(self.row, kind, value, self.outputs.get(name), name, partial=True), name

    def is_settled(self) -> None:
        """A second check gives the same inputs, and neither they nor a refresh find anything to do."""
        again = checked(self.provider, self.token, self.inputs_sent, self.inputs)
        assert again == self.inputs
        result = self.provider.read(self.token, self.id, self.outputs, self.inputs)
        assert result is not None
        assert result[0] == self.id
        assert result[1] == self.outputs
        assert result[2] == self.inputs
        assert self.provider.diff(self.token, self.inputs, again).changes == []

    def is_changed(self) -> None:
        more = self.sample.update_more
        patch = {**self.sample.update, **(more(self.ground, self.inputs_sent) if more else {})}
        if not patch:
            updatable = (
                {n for n, f in self.shape.inputs.items() if not f.replaces} - self.row.replace_on_changes - {"region"}
            )
            assert updatable <= self.row.unsupported.keys(), "the sample has to update something"
            return
        expected = patched(self.inputs_sent, patch)
        new = checked(self.provider, self.token, expected, self.inputs)
        compared = self.provider.diff(self.token, self.inputs, new)
        assert {str(c.path[0]) for c in compared.changes} == set(patch)
        assert compared.replaces == []
        self.outputs = self.provider.update(self.token, self.id, self.outputs, self.inputs, new)
        self.inputs_sent, self.inputs = expected, new
        for name in patch:
            if name in self.shape.outputs:
                kind = self.shape.inputs[name].type
                assert diff.equal(self.row, kind, new.get(name), self.outputs.get(name), name, partial=True), name
        self.is_settled()

    def would_be_replaced(self) -> None:
        if not self.sample.replace:
            assert not any(fact.replaces for fact in self.shape.inputs.values()), "the sample has to replace something"
            return
        new = checked(self.provider, self.token, patched(self.inputs_sent, self.sample.replace), self.inputs)
        assert self.provider.diff(self.token, self.inputs, new).replaces == sorted(self.sample.replace)

    def drifts(self) -> None:
        """Somebody changes it by hand: a refresh tells, and the next update puts it right."""
        if self.sample.behind is None:
            assert not self.sample.drift
            assert not self.sample.update
            assert not self.sample.update_more
            return
        self.sample.behind(self.ground, self.id, self.outputs)
        result = self.provider.read(self.token, self.id, self.outputs, self.inputs)
        assert result is not None
        _, outputs, now = result
        assert set(self.sample.drift) <= changed_names(self.provider, self.token, now, self.inputs)
        if self.provider.diff(self.token, now, self.inputs).replaces:
            self.provider.delete(self.token, self.id, outputs, now)
            self.id, self.outputs = self.provider.create(self.token, self.inputs)
        else:
            self.outputs = self.provider.update(self.token, self.id, outputs, now, self.inputs)
        self.is_settled()

    def is_imported(self) -> None:
        id_ = self.sample.imports(self.id, self.outputs)
        result = self.provider.read(self.token, id_, {}, {})
        assert result is not None
        assert (result[0] != self.id) == self.sample.another_id
        assert changed_names(self.provider, self.token, result[2], self.inputs) <= set(self.sample.untold)
        _, problems = self.provider.check(self.token, "imported", result[2], {})
        assert problems == []

    def is_deleted(self) -> None:
        self.provider.delete(self.token, self.id, self.outputs, self.inputs)
        after = self.provider.read(self.token, self.id, self.outputs, self.inputs)
        assert (after is not None) == self.sample.stays
        self.provider.delete(self.token, self.id, self.outputs, self.inputs)


def without_unknown(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_unknown(item) for key, item in value.items() if item is not UNKNOWN}
    return value


def refuse_calls(*_: object, **__: object) -> None:
    raise AssertionError("a preview must not call anything")


@pytest.mark.parametrize("token", sorted(rows.TABLE))
def test_row_is_created_read_updated_and_deleted(
    token: str, provider: Provider, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(Life(provider, ground, token, SAMPLES[token]), monkeypatch)


@pytest.mark.parametrize("token", sorted(OTHERS))
def test_row_of_another_form_is_created_read_updated_and_deleted(
    token: str, provider: Provider, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(Life(provider, ground, token, OTHERS[token]), monkeypatch)


def live(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.is_made(monkeypatch)
    life.is_settled()
    life.is_changed()
    life.would_be_replaced()
    life.drifts()
    life.is_imported()
    life.is_deleted()


def test_rule_without_a_declared_state_may_be_disabled_by_hand(provider: Provider, ground: Ground) -> None:
    """The official plugin compares the state of an event rule only where the program declares it."""
    token = "aws:cloudwatch/eventRule:EventRule"
    undeclared = {"name": ground.fresh("rule"), "eventPattern": '{"source": ["aws.ec2"]}'}
    inputs = checked(provider, token, undeclared)
    assert "state" not in inputs
    id_, outputs = provider.create(token, inputs)
    assert outputs["state"] == "ENABLED"
    ground.client("events").disable_rule(Name=id_)
    result = provider.read(token, id_, outputs, inputs)
    assert result is not None
    assert result[1]["state"] == "DISABLED"
    assert provider.diff(token, result[2], inputs).changes == []
    # Nor is it a change when a program declares it no longer.
    declared = checked(provider, token, {**undeclared, "state": "ENABLED"})
    assert changed_names(provider, token, declared, inputs) == set()
    provider.delete(token, id_, outputs, inputs)


TABLE = "aws:dynamodb/table:Table"
BY_OWNER = {"name": "by-owner", "projectionType": "ALL"}
IN_SCHEMAS = {**BY_OWNER, "keySchemas": [{"attributeName": "owner", "keyType": "HASH"}]}
IN_NAMES = {**BY_OWNER, "hashKey": "owner"}


def indexed(index: dict[str, Any], key: str = "owner") -> dict[str, Any]:
    return {
        "attributes": [{"name": name, "type": "S"} for name in ("row", key)],
        "hashKey": "row",
        "billingMode": "PAY_PER_REQUEST",
        "globalSecondaryIndexes": [index],
    }


@pytest.mark.parametrize("index_input", [IN_SCHEMAS, IN_NAMES], ids=["keySchemas", "hashKey"])
def test_the_keys_of_an_index_are_the_same_in_both_spellings(
    provider: Provider, ground: Ground, index_input: dict[str, Any]
) -> None:
    """As the official plugin, which answers both and deprecates one of them."""
    inputs = checked(provider, TABLE, indexed(index_input))
    id_, outputs = provider.create(TABLE, inputs)
    (index,) = outputs["globalSecondaryIndexes"]
    assert (index["hashKey"], index["keySchemas"]) == ("owner", IN_SCHEMAS["keySchemas"])
    result = provider.read(TABLE, id_, outputs, inputs)
    assert result is not None
    assert result[2] == inputs
    for other in (IN_SCHEMAS, IN_NAMES):
        assert changed_names(provider, TABLE, inputs, checked(provider, TABLE, indexed(other), inputs)) == set()
    moved = {**BY_OWNER, "keySchemas": [{"attributeName": "row", "keyType": "HASH"}]}
    expected = checked(provider, TABLE, {**indexed(moved), "attributes": [{"name": "row", "type": "S"}]}, inputs)
    assert changed_names(provider, TABLE, inputs, expected) == {"attributes", "globalSecondaryIndexes"}

    # Somebody indexes by another attribute under the same name.
    dynamodb = ground.client("dynamodb")
    dynamodb.update_table(TableName=id_, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "by-owner"}}])
    keys = [{"AttributeName": "row", "KeyType": "HASH"}]
    create = {"IndexName": "by-owner", "KeySchema": keys, "Projection": {"ProjectionType": "ALL"}}
    dynamodb.update_table(
        TableName=id_,
        AttributeDefinitions=[{"AttributeName": "row", "AttributeType": "S"}],
        GlobalSecondaryIndexUpdates=[{"Create": create}],
    )
    result = provider.read(TABLE, id_, outputs, inputs)
    assert result is not None
    assert "globalSecondaryIndexes" in changed_names(provider, TABLE, result[2], inputs)
    outputs = provider.update(TABLE, id_, result[1], result[2], inputs)
    assert outputs["globalSecondaryIndexes"] == [index]
    imported = provider.read(TABLE, id_, {}, {})
    assert imported is not None
    assert changed_names(provider, TABLE, imported[2], inputs) == set()
    provider.delete(TABLE, id_, outputs, inputs)


def test_an_index_has_its_keys_in_one_spelling(provider: Provider) -> None:
    both = {**IN_SCHEMAS, "hashKey": "owner"}
    _, problems = provider.check(TABLE, "a-sample", indexed(both), {})
    assert [path for path, _ in problems] == ["globalSecondaryIndexes[0].hashKey"]


def test_delete_leaves_the_cloud_as_it_was(provider: Provider) -> None:
    """Shapes are there for each row, and for no type without one."""
    from agentenv.rehearsal.providers.aws import functions

    assert shapes.known() == set(rows.TABLE) | set(functions.TABLE)
