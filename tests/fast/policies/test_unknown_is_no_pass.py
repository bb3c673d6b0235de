"""Whatever of a bad sample is not known yet, its rule does not fall silent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.offline import findings_of
from agentenv.policies.rules.registry import all_rules
from agentenv.policies.samples import Sample, samples_of
from agentenv.policies.verdicts import Verdict

Path = tuple[str | int, ...]
RULES = {rule.id: rule for rule in all_rules() if rule.family in {"NET", "RT", "EFS", "IAM"}}
# Which namespace something stands in, and what it is called: while that is not known, NET-01 says so of every sandbox
# in it, and another rule would say it again. Of a template that is not known at all NET-01 says that, too.
PLACES: set[Path] = {("metadata",), ("metadata", "name"), ("metadata", "namespace"), ("spec",)}
ELSEWHERE: set[tuple[str, Path]] = {
    # A tag whose value is not known is a tag
    ("EFS-12", ("tags", "sandbox-user")),
    # IAM-04 says that nobody knows whom the role trusts
    ("IAM-05", ("assumeRolePolicy",)),
    # The role is called something, and by that name the profile does not call it
    ("IAM-07", ("name",)),
    # An add-on of a cluster that is not known may be any cluster's
    ("NET-08", ("clusterName",)),
    # A pod that nothing makes a sandbox
    ("NET-01", ("metadata", "labels")),
}


def leaves(value: object, path: Path = ()) -> Iterator[Path]:
    items: Any = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        if path or key not in {"kind", "apiVersion"}:
            yield (*path, key)
            yield from leaves(below, (*path, key))


def without(value: Any, path: Path) -> Any:
    if not path:
        return UNKNOWN
    if isinstance(value, Mapping):
        return {**value, path[0]: without(value[path[0]], path[1:])}
    return [without(one, path[1:]) if index == path[0] else one for index, one in enumerate(value)]


def tries(sample: Sample) -> list[tuple[int, Path]]:
    """Which part of which resource."""
    return [
        (index, path)
        for index, resource in enumerate(sample.resources)
        for path in leaves(resource.inputs)
        if path not in PLACES and (sample.rule, path) not in ELSEWHERE
    ]


SAMPLES = [one for rule in RULES for one in samples_of(rule) if one.sort == "bad" and tries(one)]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.rule} {sample.name}")
def test_a_bad_sample_with_a_part_that_is_not_known_is_never_passed(sample: Sample) -> None:
    for index, path in tries(sample):
        changed = list(sample.resources)
        resource = changed[index]
        changed[index] = replace(resource, inputs=without(resource.inputs, path))
        found = findings_of(changed, sample.context, [RULES[sample.rule]])
        assert {one.verdict for one in found} & {Verdict.FAIL, Verdict.INDETERMINATE}, (resource.name, path)
        assert all("failed to run" not in one.message for one in found), (resource.name, path)
