"""The packs under the real engine: the levels of violations, waivers, errors and remediation."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.policies.conftest import PackStack, Violation

SECRET = "open-sesame-4711"
FAILING_PACK = Path(__file__).parent / "failing_pack"
TODAY = datetime.datetime.now(datetime.UTC).date()
URN = "urn:pulumi:dev::trial::kubernetes:core/v1:Pod::"

HARDENED = {"privileged": False, "allowPrivilegeEscalation": False}


def pod(name: str, *containers: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    inputs = {"metadata": {"name": name, **metadata}, "spec": {"containers": list(containers)}}
    return {"type": "kubernetes:core/v1:Pod", "name": name, "inputs": inputs}


BROKEN = [
    pod(
        "broken",
        {"name": "<unknown>", "securityContext": {**HARDENED, "privileged": "<unknown>"}},
        {"name": "second", "securityContext": {**HARDENED, "privileged": True}},
        labels="<unknown>",
        annotations={"token": SECRET},
    ),
    pod("waived-one", {"name": "only", "securityContext": {**HARDENED, "privileged": True}}),
]


def waiver(name: str, rule: str, urn: str, **changed: Any) -> dict[str, Any]:
    return {
        "id": name,
        "rule": rule,
        "urn": urn,
        "environment": "dev",
        "reason": "a trial",
        "owners": ["platform", "security"],
        "ticket": "OPS-1",
        "created": TODAY - datetime.timedelta(days=10),
        "expires": TODAY + datetime.timedelta(days=10),
        **changed,
    }


def violations_of(violations: list[Violation], rule: str) -> list[tuple[str, str]]:
    return sorted((each.resource, each.level) for each in violations if each.rule == rule)


def test_findings_have_their_own_levels_and_waivers_apply_until_they_expire(stack: PackStack, tmp_path: Path) -> None:
    file, record = tmp_path / "waivers.yaml", tmp_path / "record.json"
    expired = TODAY - datetime.timedelta(days=1)
    waivers = [
        waiver("trial-pod", "POD-01", f"{URN}waived-*"),
        waiver("long-gone", "POD-01", f"{URN}broken", expires=expired),
        waiver("needless", "POD-11", f"{URN}waived-one"),
        waiver("lonely", "POD-01", f"{URN}broken", owners=["platform"]),
    ]
    file.write_text(yaml.safe_dump({"waivers": waivers}), encoding="utf-8")
    stack.configure(BROKEN)
    config = {
        "waivers": str(file),
        "record": str(record),
        "rules": dict.fromkeys(stack.others("POD-01", "POD-11"), "disabled"),
    }
    code, printed = stack.preview("isolation", config=config)
    violations = stack.violations()
    assert code != 0
    assert violations_of(violations, "POD-01") == [
        ("broken", "advisory"),
        ("broken", "mandatory"),
        ("waived-one", "advisory"),
    ]
    assert violations_of(violations, "POD-11") == [("broken", "advisory")]
    assert {each.severity for each in violations if each.rule == "POD-01"} == {"critical"}
    assert any("waived by trial-pod until" in each.message for each in violations if each.resource == "waived-one")
    assert [level for _, level in violations_of(violations, "WVR-01")] == ["mandatory"]
    assert [level for _, level in violations_of(violations, "WVR-02")] == ["mandatory"]
    assert [level for _, level in violations_of(violations, "WVR-03")] == ["advisory"]
    assert "two owners" in printed
    assert SECRET not in printed
    recorded = json.loads(record.read_text(encoding="utf-8"))
    assert (recorded["failed"], recorded["indeterminate"], recorded["waived"]) == (4, 2, 1)
    assert recorded["passed"] > 0
    assert {(row["id"], row["path"]) for row in recorded["findings"] if row["verdict"] == "indeterminate"} == {
        ("POD-01", "spec.containers[0].securityContext.privileged"),
        ("POD-11", "metadata.labels"),
    }
    assert recorded["waivers"][0]["waiver"] == "trial-pod"


def test_findings_about_waivers_can_be_disabled(stack: PackStack, tmp_path: Path) -> None:
    file, record = tmp_path / "waivers.yaml", tmp_path / "record.json"
    file.write_text(yaml.safe_dump({"waivers": [waiver("needless", "POD-01", f"{URN}nobody")]}), encoding="utf-8")
    stack.configure([])
    quiet = dict.fromkeys((*stack.others(), "WVR-03", "PACK-02"), "disabled")
    code, printed = stack.preview("isolation", config={"waivers": str(file), "record": str(record), "rules": quiet})
    assert (code, stack.violations()) == (0, []), printed
    assert json.loads(record.read_text(encoding="utf-8"))["findings"] == []


def test_production_stops_for_indeterminate_verdicts_and_failing_rules(stack: PackStack) -> None:
    stack.configure([BROKEN[0]])
    config = {"environment": "prod", "rules": dict.fromkeys(stack.others("POD-11"), "disabled")}
    code, printed = stack.preview(str(FAILING_PACK), config=config)
    violations = stack.violations()
    assert code != 0
    assert violations_of(violations, "POD-11") == [("broken", "mandatory")]
    assert violations_of(violations, "ZZZ-01") == [("broken", "mandatory")]
    assert "the rule ZZZ-01 failed to run (KeyError in failing, line" in printed
    assert SECRET not in printed


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"registries": "one"}, "registries: Invalid type"),
        ({"enforcement": {"prod": {"fail": ["Grave"]}}}, "enforcement.prod.fail.0 must be one of"),
    ],
)
def test_engine_rejects_a_configuration_with_wrong_types(stack: PackStack, config: Any, message: str) -> None:
    stack.configure([])
    code, printed = stack.preview("isolation", config=config)
    assert code != 0
    assert message in printed


def test_invalid_configuration_stops_the_deployment(stack: PackStack) -> None:
    stack.configure([])
    config = {"registrys": ["a"], "rules": {"POD-99": "advisory"}, "record": "/no/such/folder/record.json"}
    code, printed = stack.preview("cost", config=config)
    assert code != 0
    assert "there is no key 'registrys'; did you mean 'registries'?" in printed
    assert "there is no rule POD-99" in printed
    # An error in the pack is a violation too, and does not end the run
    assert [level for _, level in violations_of(stack.violations(), "PACK-03")] == ["mandatory"]
    assert "FileNotFoundError in" in printed


def test_remediation_adds_missing_tags_only_if_it_is_enabled(stack: PackStack) -> None:
    tagged = {"type": "aws:efs/fileSystem:FileSystem", "name": "shard", "inputs": {"tags": {"owner": "me"}}}
    hidden = {"type": "aws:efs/fileSystem:FileSystem", "name": "later", "inputs": {"tags": "<unknown>"}}
    stack.configure([tagged, hidden])
    config = {"tags": {"owner": "platform", "cost-center": "cc-1"}}
    off = {"rules": dict.fromkeys(stack.others(family="COST"), "disabled")}
    stack.preview("cost", config={**config, **off})
    assert stack.remediated() == {}
    stack.preview("cost", config={**config, **off, "enforcementLevel": "remediate"})
    assert stack.remediated() == {"shard": {"tags": {"owner": "me", "cost-center": "cc-1"}}}


def test_unknown_document_is_evaluated_as_planned(stack: PackStack) -> None:
    condition = {
        "StringLike": {"issuer.invalid:sub": "system:serviceaccount:*", "issuer.invalid:aud": "sts.amazonaws.com"}
    }
    provider = "arn:aws:iam::111122223333:oidc-provider/issuer.invalid"
    trust = {
        "Effect": "Allow",
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": provider},
        "Condition": condition,
    }
    planned = {"Version": "2012-10-17", "Statement": [trust]}
    kind = "aws:iam/role:Role"
    plan = {"type": kind, "name": "writer", "property": "assumeRolePolicy", "says": planned}
    component = {"type": "trial:index:Thing", "name": "thing", "outputs": {"documents": [plan]}}
    hidden = {"assumeRolePolicy": "<unknown>"}
    role = {"type": kind, "name": "writer", "parent": "thing", "inputs": hidden}
    stack.configure([component, role, {"type": kind, "name": "reader", "parent": "thing", "inputs": hidden}])
    config = {"rules": dict.fromkeys(stack.others("IAM-04"), "disabled")}
    code, _ = stack.preview("isolation", config=config)
    assert code != 0
    assert violations_of(stack.violations(), "IAM-04") == [("reader", "advisory"), ("writer", "mandatory")]


def test_state_file_is_evaluated_without_its_stack(stack: PackStack, tmp_path: Path) -> None:
    urn = "urn:pulumi:prod::trial::pulumi:pulumi:Stack::trial-prod"
    root = {"urn": urn, "type": "pulumi:pulumi:Stack", "custom": False}
    inputs = BROKEN[1]["inputs"]
    pod_urn = f"{URN}waived-one".replace(":dev:", ":prod:")
    row = {"urn": pod_urn, "custom": False, "type": "kubernetes:core/v1:Pod", "parent": urn, "inputs": inputs}
    state = {"version": 3, "deployment": {"manifest": {}, "resources": [root, {**row, "outputs": inputs}]}}
    file = tmp_path / "state.json"
    file.write_text(json.dumps(state), encoding="utf-8")
    analysis = stack.engine.run(
        "policy", "analyze", "--file", str(file), "--policy-pack", str(stack.packs / "isolation")
    )
    assert analysis.returncode != 0
    assert "POD-01" in analysis.stdout
    assert "container 'only' is privileged" in analysis.stdout
