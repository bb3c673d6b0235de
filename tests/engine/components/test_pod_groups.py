"""Security groups of classes on Fargate under the engine: AWS accepts every rule, none drifts, all are deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3

from agentenv.rehearsal.stage.stage import Stage


def test_security_groups_are_created_settle_and_are_deleted(opened: Stage) -> None:
    engine = opened.program(
        Path(__file__).parent / "pod_groups", "dev", {"aws:region": "us-east-1"}, {"name": "groups"}
    )
    engine.up()
    outputs = engine.outputs()
    ec2 = boto3.client(
        "ec2",
        endpoint_url=opened.cloud,
        region_name="us-east-1",
        aws_access_key_id=opened.environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=opened.environment["AWS_SECRET_ACCESS_KEY"],
    )
    rules = ec2.describe_security_group_rules(MaxResults=1000)["SecurityGroupRules"]
    # AWS creates a group with a rule for all egress, which is not declared.
    opened_wide = [rule for rule in out_of(rules, *outputs["groups"]["open"]) if rule.get("CidrIpv4") == "0.0.0.0/0"]
    assert opened_wide == []
    (kubelet,) = out_of(rules, *outputs["groups"]["closed"])
    assert (kubelet["ReferencedGroupInfo"]["GroupId"], kubelet["FromPort"]) == (outputs["cluster"], 443)
    assert len(out_of(rules, *outputs["groups"]["open"])) > 60
    assert engine.up().changed == 0
    assert engine.refresh().changed == 0
    engine.destroy()
    assert [leftover for leftover in opened.leftovers() if "security-group" in leftover] == []


def out_of(rules: list[dict[str, Any]], *groups: str) -> list[dict[str, Any]]:
    return [rule for rule in rules if rule["GroupId"] in groups and rule["IsEgress"]]
