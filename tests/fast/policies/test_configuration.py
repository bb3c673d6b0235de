"""The configuration of the packs: each key changes only its own setting."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.policies.packs.configuration import read
from agentenv.policies.verdicts import Finding, Severity, Verdict


def levels(enforcement: dict[str, Any], environment: str = "prod") -> dict[tuple[Severity, str], str]:
    """Return the level of each kind of finding."""
    configuration = read({"enforcement": enforcement}, environment)
    assert configuration.mistakes == ()
    severities: tuple[Severity, ...] = ("Critical", "High", "Medium", "Low")
    return {
        (severity, verdict.value): configuration.enforcement.level(Finding("POD-01", severity, verdict, "u", "", ""))
        for severity in severities
        for verdict in (Verdict.FAIL, Verdict.INDETERMINATE)
    }


@pytest.mark.parametrize("environment", ["prod", "dev"])
@pytest.mark.parametrize("enforcement", [{"prod": {}, "dev": {}}, {"staging": {"fail": []}}])
def test_an_environment_keeps_defaults_that_the_configuration_omits(
    enforcement: dict[str, Any], environment: str
) -> None:
    assert levels(enforcement, environment) == levels({}, environment)


def test_levels_of_failures_and_indeterminate_verdicts_are_independent() -> None:
    defaults = levels({})
    changed = levels({"prod": {"fail": ["Critical", "High"]}})
    assert changed == {**defaults, ("Medium", "fail"): "advisory"}
    assert changed["Critical", "indeterminate"] == "mandatory"
    changed = levels({"prod": {"indeterminate": []}})
    assert changed == {
        **defaults,
        ("Critical", "indeterminate"): "advisory",
        ("High", "indeterminate"): "advisory",
    }


@pytest.mark.parametrize("name", ["PACK-01", "PACK-03"])
def test_findings_about_a_pack_itself_cannot_be_disabled(name: str) -> None:
    assert read({"rules": {name: "disabled"}}, "prod").mistakes == (f"rules: {name} is always reported",)
    assert read({"rules": {"WVR-03": "disabled", "PACK-02": "disabled"}}, "prod").mistakes == ()
