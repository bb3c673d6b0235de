"""The packs under the real engine: who is told what, what stops a deployment, and that nothing is lost in silence."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.policies.conftest import Reviewed, Told

SECRET = "open-sesame-4711"
CRACKED = Path(__file__).parent / "cracked"
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


def of(told: list[Told], rule: str) -> list[tuple[str, str]]:
    return sorted((one.resource, one.level) for one in told if one.rule == rule)


def test_each_finding_has_its_own_level_and_waivers_hold_until_they_expire(reviewed: Reviewed, tmp_path: Path) -> None:
    file, record = tmp_path / "waivers.yaml", tmp_path / "record.json"
    expired = TODAY - datetime.timedelta(days=1)
    waivers = [
        waiver("trial-pod", "POD-01", f"{URN}waived-*"),
        waiver("long-gone", "POD-01", f"{URN}broken", expires=expired),
        waiver("needless", "POD-11", f"{URN}waived-one"),
        waiver("lonely", "POD-01", f"{URN}broken", owners=["platform"]),
    ]
    file.write_text(yaml.safe_dump({"waivers": waivers}), encoding="utf-8")
    reviewed.configure(BROKEN)
    wanted = {
        "waivers": str(file),
        "record": str(record),
        "rules": dict.fromkeys(reviewed.others("POD-01", "POD-11"), "disabled"),
    }
    code, printed = reviewed.preview("isolation", config=wanted)
    told = reviewed.told()
    assert code != 0
    assert of(told, "POD-01") == [("broken", "advisory"), ("broken", "mandatory"), ("waived-one", "advisory")]
    assert of(told, "POD-11") == [("broken", "advisory")]
    assert {one.severity for one in told if one.rule == "POD-01"} == {"critical"}
    assert any("waived by trial-pod until" in one.message for one in told if one.resource == "waived-one")
    assert [level for _, level in of(told, "WVR-01")] == ["mandatory"]
    assert [level for _, level in of(told, "WVR-02")] == ["mandatory"]
    assert [level for _, level in of(told, "WVR-03")] == ["advisory"]
    assert "two owners" in printed
    assert SECRET not in printed
    kept = json.loads(record.read_text(encoding="utf-8"))
    assert (kept["failed"], kept["indeterminate"], kept["waived"]) == (4, 2, 1)
    assert kept["passed"] > 0
    assert {(one["id"], one["path"]) for one in kept["findings"] if one["verdict"] == "indeterminate"} == {
        ("POD-01", "spec.containers[0].securityContext.privileged"),
        ("POD-11", "metadata.labels"),
    }
    assert kept["waivers"][0]["waiver"] == "trial-pod"


def test_what_is_said_of_waivers_can_be_switched_off(reviewed: Reviewed, tmp_path: Path) -> None:
    file, record = tmp_path / "waivers.yaml", tmp_path / "record.json"
    file.write_text(yaml.safe_dump({"waivers": [waiver("needless", "POD-01", f"{URN}nobody")]}), encoding="utf-8")
    reviewed.configure([])
    quiet = dict.fromkeys((*reviewed.others(), "WVR-03", "PACK-02"), "disabled")
    code, printed = reviewed.preview("isolation", config={"waivers": str(file), "record": str(record), "rules": quiet})
    assert (code, reviewed.told()) == (0, []), printed
    assert json.loads(record.read_text(encoding="utf-8"))["findings"] == []


def test_production_stops_at_what_it_cannot_tell_and_a_broken_rule_is_a_finding(reviewed: Reviewed) -> None:
    reviewed.configure([BROKEN[0]])
    wanted = {"environment": "prod", "rules": dict.fromkeys(reviewed.others("POD-11"), "disabled")}
    code, printed = reviewed.preview(str(CRACKED), config=wanted)
    told = reviewed.told()
    assert code != 0
    assert of(told, "POD-11") == [("broken", "mandatory")]
    assert of(told, "ZZZ-01") == [("broken", "mandatory")]
    assert "the rule ZZZ-01 failed to run (KeyError in cracked, line" in printed
    assert SECRET not in printed


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"registries": "one"}, "registries: Invalid type"),
        ({"enforcement": {"prod": {"fail": ["Grave"]}}}, "enforcement.prod.fail.0 must be one of"),
    ],
)
def test_the_engine_refuses_a_configuration_of_wrong_types(reviewed: Reviewed, config: Any, said: str) -> None:
    reviewed.configure([])
    code, printed = reviewed.preview("isolation", config=config)
    assert code != 0
    assert said in printed


def test_a_configuration_that_means_nothing_stops_the_deployment(reviewed: Reviewed) -> None:
    reviewed.configure([])
    given = {"registrys": ["a"], "rules": {"POD-99": "advisory"}, "record": "/no/such/folder/record.json"}
    code, printed = reviewed.preview("cost", config=given)
    assert code != 0
    assert "there is no key 'registrys'; did you mean 'registries'?" in printed
    assert "there is no rule POD-99" in printed
    # And where the pack itself breaks, the engine goes on and says so
    assert [level for _, level in of(reviewed.told(), "PACK-03")] == ["mandatory"]
    assert "FileNotFoundError in" in printed


def test_remediation_adds_what_is_missing_once_it_is_switched_on(reviewed: Reviewed) -> None:
    tagged = {"type": "aws:efs/fileSystem:FileSystem", "name": "shard", "inputs": {"tags": {"owner": "me"}}}
    hidden = {"type": "aws:efs/fileSystem:FileSystem", "name": "later", "inputs": {"tags": "<unknown>"}}
    reviewed.configure([tagged, hidden])
    config = {"tags": {"owner": "platform", "cost-center": "cc-1"}}
    off = {"rules": dict.fromkeys(reviewed.others(family="COST"), "disabled")}
    reviewed.preview("cost", config={**config, **off})
    assert reviewed.remediated() == {}
    reviewed.preview("cost", config={**config, **off, "enforcementLevel": "remediate"})
    assert reviewed.remediated() == {"shard": {"tags": {"owner": "me", "cost-center": "cc-1"}}}


def test_a_document_that_is_not_known_yet_is_judged_as_its_component_promises(reviewed: Reviewed) -> None:
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
    says = {"Version": "2012-10-17", "Statement": [trust]}
    kind = "aws:iam/role:Role"
    promise = {"type": kind, "name": "writer", "property": "assumeRolePolicy", "says": says}
    component = {"type": "trial:index:Thing", "name": "thing", "outputs": {"documents": [promise]}}
    hidden = {"assumeRolePolicy": "<unknown>"}
    role = {"type": kind, "name": "writer", "parent": "thing", "inputs": hidden}
    reviewed.configure([component, role, {"type": kind, "name": "reader", "parent": "thing", "inputs": hidden}])
    config = {"rules": dict.fromkeys(reviewed.others("IAM-04"), "disabled")}
    code, _ = reviewed.preview("isolation", config=config)
    assert code != 0
    assert of(reviewed.told(), "IAM-04") == [("reader", "advisory"), ("writer", "mandatory")]


def test_a_state_is_judged_without_its_stack(reviewed: Reviewed, tmp_path: Path) -> None:
    urn = "urn:pulumi:prod::trial::pulumi:pulumi:Stack::trial-prod"
    stack = {"urn": urn, "type": "pulumi:pulumi:Stack", "custom": False}
    inputs = BROKEN[1]["inputs"]
    thing = f"{URN}waived-one".replace(":dev:", ":prod:")
    row = {"urn": thing, "custom": False, "type": "kubernetes:core/v1:Pod", "parent": urn, "inputs": inputs}
    state = {"version": 3, "deployment": {"manifest": {}, "resources": [stack, {**row, "outputs": inputs}]}}
    file = tmp_path / "state.json"
    file.write_text(json.dumps(state), encoding="utf-8")
    ended = reviewed.engine.run(
        "policy", "analyze", "--file", str(file), "--policy-pack", str(reviewed.packs / "isolation")
    )
    assert ended.returncode != 0
    assert "POD-01" in ended.stdout
    assert "container 'only' is privileged" in ended.stdout
