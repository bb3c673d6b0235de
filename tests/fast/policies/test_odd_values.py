"""A value of the wrong type makes no rule raise an error, after which it would evaluate nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest

from agentenv.policies.offline import findings_of
from agentenv.policies.rules.registry import all_rules
from agentenv.policies.samples import samples_of
from tests.fast.policies.test_unknown_is_no_pass import Path, leaves

ODD: tuple[object, ...] = (
    None,
    0,
    -1,
    1.5,
    "",
    "x",
    [],
    [None],
    ["x"],
    {},
    {"a": None},
    True,
    [[]],
    "9.0.0.0/99",
    "{",
    10**400,
)
RULES = {rule.id: rule for rule in all_rules()}


def put(value: Any, path: Path, odd: object) -> Any:
    if not path:
        return odd
    if isinstance(value, dict):
        return {**value, path[0]: put(value[path[0]], path[1:], odd)}
    return [put(element, path[1:], odd) if index == path[0] else element for index, element in enumerate(value)]


@pytest.mark.parametrize("rule", RULES)
def test_no_value_makes_a_rule_raise_an_error(rule: str) -> None:
    # Each rule starts at another value
    odds = cycle((*ODD[len(rule + RULES[rule].title) % len(ODD) :], *ODD))
    tried = 0
    for sample in samples_of(rule):
        for index, resource in enumerate(sample.resources):
            for path in leaves(resource.inputs):
                changed = list(sample.resources)
                changed[index] = replace(resource, inputs=put(dict(resource.inputs), path, next(odds)))
                found = findings_of(changed, sample.context, [RULES[rule]])
                assert [finding.message for finding in found if "failed to run" in finding.message] == [], path
                tried += 1
    assert tried
