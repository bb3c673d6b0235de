"""Waivers: which are invalid, what one covers and until when, and the findings about them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentenv.policies.verdicts import Finding, Severity, Verdict
from agentenv.policies.waivers import FILE, Waivers, is_bounded, read_waivers, used_ids, waivers_of

TODAY = datetime.date(2030, 6, 15)
SEVERITIES: dict[str, Severity] = {"POD-01": "Critical", "POD-09": "High"}
STACK = "urn:pulumi:prod::agents::"
GOOD = {
    "id": "disk-of-reports",
    "rule": "POD-09",
    "urn": f"{STACK}kubernetes:apps/v1:Deployment::reports",
    "environment": "prod",
    "reason": "it is measured first",
    "owners": ["reports"],
    "ticket": "OPS-7",
    "created": TODAY - datetime.timedelta(days=30),
    "expires": TODAY + datetime.timedelta(days=60),
}


def read(*rows: dict[str, Any]) -> Waivers:
    return waivers_of(yaml.safe_dump({"waivers": list(rows)}), SEVERITIES, TODAY)


def finding(urn: str = str(GOOD["urn"]), rule: str = "POD-09", verdict: Verdict = Verdict.FAIL) -> Finding:
    return Finding(rule, SEVERITIES[rule], verdict, urn, "spec", "it is wrong")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"expires": TODAY + datetime.timedelta(days=61)}, "it is valid for more than 90 days"),
        ({"created": TODAY + datetime.timedelta(days=1)}, "it is created in the future"),
        ({"expires": TODAY - datetime.timedelta(days=40)}, "it expires before it is created"),
        ({"rule": "POD-99"}, "there is no rule POD-99"),
        ({"rule": "POD-01"}, "a Critical rule needs two owners"),
        ({"rule": "POD-01", "owners": ["me", "me"]}, "a Critical rule needs two owners"),
        ({"rule": "POD-01", "owners": ["me", " Me "]}, "a Critical rule needs two owners"),
        ({"rule": "POD-01", "owners": ["me", "@me"]}, "a Critical rule needs two owners"),
        ({"owners": ["@"]}, "'owners' must be a list"),
        ({"owners": [" "]}, "'owners' must be a list"),
        ({"ticket": " "}, "'ticket' is missing"),
        ({"reason": "\n"}, "'reason' is missing"),
        ({"urn": "*"}, "its urn must be"),
        ({"urn": f"{STACK}kubernetes:apps/v1:*::reports"}, "its urn must be"),
        ({"urn": f"{STACK}kubernetes:apps/v1:Deployment::re*"}, "its urn must be"),
        ({"id": "A"}, "its id must"),
        ({"reason": ""}, "'reason' is missing"),
        ({"reason": ["a"]}, "'reason' must be a string"),
        ({"owners": [1]}, "'owners' must be a list"),
        ({"expires": "soon"}, "'expires' must be a date"),
        ({"until": TODAY}, "'until' is not a key"),
    ],
)
def test_an_invalid_waiver_waives_nothing(changed: dict[str, Any], expected: str) -> None:
    waivers = read({**GOOD, **changed})
    assert not waivers.all
    assert any(expected in message for message in waivers.wrong), waivers.wrong


def test_two_waivers_with_the_same_id_are_a_mistake() -> None:
    waivers = read(GOOD, GOOD)
    assert len(waivers.all) == 1
    assert waivers.wrong == ("waiver disk-of-reports: another waiver has the same id",)


@pytest.mark.parametrize("text", ["a: [", "waivers: 3", "waivers: [3]", "- 3", "waivrs: []", "{waivers: [], more: 1}"])
def test_an_invalid_file_is_reported(text: str) -> None:
    assert waivers_of(text, SEVERITIES, TODAY).wrong


def test_a_waiver_covers_one_rule_resource_and_environment_until_its_expiry() -> None:
    waivers = read(GOOD)
    last = TODAY + datetime.timedelta(days=60)
    assert waivers.waiver_for(finding(), "prod", last) is not None
    assert waivers.waiver_for(finding(verdict=Verdict.INDETERMINATE), "prod", last) is not None
    assert waivers.waiver_for(finding(), "prod", last + datetime.timedelta(days=1)) is None
    assert waivers.waiver_for(finding(), "staging", TODAY) is None
    assert waivers.waiver_for(finding(rule="POD-01"), "prod", TODAY) is None
    assert waivers.waiver_for(finding(f"{GOOD['urn']}-too"), "prod", TODAY) is None
    assert waivers.waiver_for(finding(verdict=Verdict.PASS), "prod", TODAY) is None


def test_a_pattern_stays_within_a_name() -> None:
    waivers = read({**GOOD, "urn": f"{STACK}kubernetes:apps/v1:Deployment::rep*"})
    prefix = f"{STACK}kubernetes:apps/v1:Deployment::"
    assert waivers.waiver_for(finding(f"{prefix}reports-2"), "prod", TODAY) is not None
    assert waivers.waiver_for(finding(f"{prefix}other"), "prod", TODAY) is None
    assert waivers.waiver_for(finding(f"{prefix}reports::more"), "prod", TODAY) is None
    # What stands in a URN for itself stands for itself here too
    assert waivers.waiver_for(finding(prefix.replace(".", "x") + "rep"), "prod", TODAY) is not None
    assert not is_bounded("urn:pulumi:prod::agents::a?b::reports")


def test_expired_invalid_and_unused_waivers_are_findings() -> None:
    old = {**GOOD, "id": "too-old", "expires": TODAY - datetime.timedelta(days=1)}
    elsewhere = {**GOOD, "id": "elsewhere", "environment": "dev"}
    unused = {**GOOD, "id": "nobody-needs", "rule": "POD-01", "owners": ["a", "b"]}
    waivers = read(GOOD, old, elsewhere, unused, {**GOOD, "id": "wrong", "rule": "X"})
    left, waived = waivers.split([finding(), finding("other")], "prod", TODAY)
    assert [waiver.urn for waiver in left] == ["other"]
    assert used_ids(waived) == {"disk-of-reports"}
    assert "waived by disk-of-reports until 2030-08-14" in waived[0].waiver.summary
    expected = [(finding.rule, finding.severity) for finding in waivers.own_findings("prod", used_ids(waived), TODAY)]
    assert expected == [("WVR-02", "High"), ("WVR-01", "High"), ("WVR-03", "Low")]


def test_the_default_file_is_valid_and_another_must_exist(tmp_path: Path) -> None:
    assert read_waivers(FILE, SEVERITIES, TODAY).wrong == ()
    assert read_waivers(tmp_path / "none.yaml", SEVERITIES, TODAY).wrong


def test_findings_about_waivers_name_the_waiver() -> None:
    gone = {**GOOD, "id": "long-gone", "expires": TODAY - datetime.timedelta(days=1)}
    waivers = read(GOOD, gone, {"id": "half"}, {})
    found = [(finding.rule, finding.path) for finding in waivers.own_findings("prod", (), TODAY)]
    assert set(found) == {
        ("WVR-01", "waivers.long-gone"),
        ("WVR-02", "waivers.half"),
        ("WVR-02", "waivers.4"),
        ("WVR-03", "waivers.disk-of-reports"),
    }
    assert [finding.path for finding in waivers_of("a: [", SEVERITIES, TODAY).own_findings("prod", (), TODAY)] == [""]
