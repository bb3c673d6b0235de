"""The packs' configuration: what is said changes that and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.policies.packs.configuration import read
from agentenv.policies.verdicts import Finding, Severity, Verdict


def levels(given: dict[str, Any], environment: str = "prod") -> dict[tuple[Severity, str], str]:
    """What becomes of each kind of finding."""
    configuration = read({"enforcement": given}, environment)
    assert configuration.mistakes == ()
    severities: tuple[Severity, ...] = ("Critical", "High", "Medium", "Low")
    return {
        (severity, verdict.value): configuration.enforcement.level(Finding("POD-01", severity, verdict, "u", "", ""))
        for severity in severities
        for verdict in (Verdict.FAIL, Verdict.INDETERMINATE)
    }


@pytest.mark.parametrize("environment", ["prod", "dev"])
@pytest.mark.parametrize("given", [{"prod": {}, "dev": {}}, {"staging": {"fail": []}}])
def test_what_is_not_said_of_an_environment_stays_as_it_is_there(given: dict[str, Any], environment: str) -> None:
    assert levels(given, environment) == levels({}, environment)


def test_who_says_what_a_failure_does_says_nothing_of_what_cannot_be_told() -> None:
    default_strictness = levels({})
    told = levels({"prod": {"fail": ["Critical", "High"]}})
    assert told == {**default_strictness, ("Medium", "fail"): "advisory"}
    assert told["Critical", "indeterminate"] == "mandatory"
    told = levels({"prod": {"indeterminate": []}})
    assert told == {
        **default_strictness,
        ("Critical", "indeterminate"): "advisory",
        ("High", "indeterminate"): "advisory",
    }


@pytest.mark.parametrize("name", ["PACK-01", "PACK-03"])
def test_a_pack_that_judges_otherwise_than_believed_is_always_told(name: str) -> None:
    assert read({"rules": {name: "disabled"}}, "prod").mistakes == (f"rules: {name} is always reported",)
    assert read({"rules": {"WVR-03": "disabled", "PACK-02": "disabled"}}, "prod").mistakes == ()
