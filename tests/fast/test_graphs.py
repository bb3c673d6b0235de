"""The comparison of two checkouts' graphs, which every move of code rests on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentenv.cli.review.graph import Resource, Source, graph
from tests.graphs import as_json, differences, main, previewable, stack_names

URN = "urn:pulumi:dev::p::aws:kms/key:Key::k"


def dumped(**more: object) -> dict[str, dict[str, object]]:
    resource = Resource(URN, "aws:kms/key:Key", **{"inputs": {"policy": '{"a": [1, 2]}'}, **more})  # type: ignore[arg-type]
    return {"dev": as_json(graph([resource]))}


def test_two_equal_graphs_have_no_difference_wherever_their_lines_are() -> None:
    moved = dumped(source=Source("agentenv/components/keys.py", 9))
    assert list(differences(dumped(source=Source("components/keys.py", 7)), moved)) == []


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"protect": True}, "protect: false -> true"),
        ({"retain": True}, "retain: false -> true"),
        ({"parent": "urn:x"}, 'parent: "" -> "urn:x"'),
        ({"provider": "p"}, 'provider: "" -> "p"'),
        ({"dependencies": ("urn:x",)}, 'dependencies: [] -> ["urn:x"]'),
        ({"aliases": ("urn:x",)}, 'aliases: [] -> ["urn:x"]'),
        ({"ignores": ("tags",)}, 'ignores: [] -> ["tags"]'),
        ({"inputs": {"policy": '{"a": [1, 3]}'}}, "inputs.policy.json.pairs[0][1][1]: 2 -> 3"),
        ({"inputs": {"policy": '{"a":[1, 2]}'}}, "inputs.policy.length: 13 -> 12"),
    ],
)
def test_each_field_is_compared_at_its_own_path(change: dict[str, object], path: str) -> None:
    assert list(differences(dumped(), dumped(**change))) == [f"dev {URN} {path}"]


def test_the_random_end_of_a_generated_name_is_no_difference_and_a_name_is() -> None:
    first, second, third = (dumped(inputs={"name": name}) for name in ("k-0a1b2c3", "k-d4e5f60", "q-0a1b2c3"))
    assert list(differences(first, second)) == []
    assert list(differences(first, third)) == [f'dev {URN} inputs.name: "k-(random)" -> "q-0a1b2c3"']


def test_the_order_of_keys_in_a_json_text_counts() -> None:
    first, second = ({"inputs": {"policy": text}} for text in ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'))
    assert list(differences(dumped(**first), dumped(**second)))


def test_a_resource_or_a_stack_that_is_gone_is_a_difference() -> None:
    assert len(list(differences(dumped(), {"dev": {}}))) == 1
    assert len(list(differences(dumped(), {}))) == 1


def test_the_command_exits_by_what_it_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "one.json", tmp_path / "other.json"
    first.write_text(json.dumps(dumped()), encoding="utf-8")
    second.write_text(json.dumps(dumped(protect=True)), encoding="utf-8")
    assert main(["compare", str(first), str(first)]) == 0
    assert main(["compare", str(first), str(second)]) == 1
    assert "1 differences in 1 resources of 1 stacks" in capsys.readouterr().out


def test_every_stack_file_is_dumped() -> None:
    root = Path(__file__).resolve().parents[2]
    assert {"dev", "local", "prod", "staging"} <= set(stack_names(root))
    assert len(stack_names(root)) == len(list((root / "stacks").glob("Pulumi.*.yaml")))
    # What it adopts exists in no preview without an account.
    assert set(stack_names(root)) - set(previewable(root)) == {"adopted"}
