"""A rule never passes a bad sample, whichever part of it is unknown."""

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
# The name and namespace of an object, and a whole template: while these are unknown, NET-01 reports every sandbox, so
# the other rules need not.
PLACES: set[Path] = {("metadata",), ("metadata", "name"), ("metadata", "namespace"), ("spec",)}
EXCEPTIONS: set[tuple[str, Path]] = {
    # A tag with an unknown value is still a tag
    ("EFS-12", ("tags", "sandbox-user")),
    # IAM-04 reports the unknown trust policy
    ("IAM-05", ("assumeRolePolicy",)),
    # The profile names another role
    ("IAM-07", ("name",)),
    # An add-on of an unknown cluster may be for any cluster
    ("NET-08", ("clusterName",)),
    # Nothing else makes this pod a sandbox
    ("NET-01", ("metadata", "labels")),
}


def leaves(value: object, path: Path = ()) -> Iterator[Path]:
    items: Any = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        if path or key not in {"kind", "apiVersion"}:
            yield (*path, key)
            yield from leaves(below, (*path, key))


def with_unknown(value: Any, path: Path) -> Any:
    if not path:
        return UNKNOWN
    if isinstance(value, Mapping):
        return {**value, path[0]: with_unknown(value[path[0]], path[1:])}
    return [with_unknown(element, path[1:]) if index == path[0] else element for index, element in enumerate(value)]


def parts_to_hide(sample: Sample) -> list[tuple[int, Path]]:
    """Return each part of each resource."""
    return [
        (index, path)
        for index, resource in enumerate(sample.resources)
        for path in leaves(resource.inputs)
        if path not in PLACES and (sample.rule, path) not in EXCEPTIONS
    ]


SAMPLES = [sample for rule in RULES for sample in samples_of(rule) if sample.sort == "bad" and parts_to_hide(sample)]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.rule} {sample.name}")
def test_a_bad_sample_with_an_unknown_part_never_passes(sample: Sample) -> None:
    for index, path in parts_to_hide(sample):
        changed = list(sample.resources)
        resource = changed[index]
        changed[index] = replace(resource, inputs=with_unknown(resource.inputs, path))
        found = findings_of(changed, sample.context, [RULES[sample.rule]])
        assert {finding.verdict for finding in found} & {Verdict.FAIL, Verdict.INDETERMINATE}, (resource.name, path)
        assert all("failed to run" not in finding.message for finding in found), (resource.name, path)
