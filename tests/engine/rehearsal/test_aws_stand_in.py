"""The stand-in aws provider under the real engine: up, nothing to do, drift, update, destroy, and what is left then."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.engine.rehearsal.conftest import Engine

PROJECT = "name: stand-in\nruntime: python\nmain: .\n"
PROGRAM = """
import json
import pulumi
from pulumi_aws import cloudwatch, ec2, get_availability_zones_output, iam, kms

settings = pulumi.Config()
zones = get_availability_zones_output(state="available")
vpc = ec2.Vpc("net", cidr_block="10.0.0.0/16", enable_dns_hostnames=True, tags={"owner": settings.get("owner") or "us"})
inside = pulumi.ResourceOptions(parent=vpc)
subnet = ec2.Subnet(
    "inner", vpc_id=vpc.id, cidr_block="10.0.1.0/24", availability_zone=zones.names[0], opts=inside
)
gateway = ec2.InternetGateway("out", vpc_id=vpc.id, opts=inside)
table = ec2.RouteTable("routes", vpc_id=vpc.id, opts=inside)
ec2.Route("out", route_table_id=table.id, destination_cidr_block="0.0.0.0/0", gateway_id=gateway.id, opts=inside)
ec2.RouteTableAssociation("inner", route_table_id=table.id, subnet_id=subnet.id, opts=inside)
ec2.DefaultSecurityGroup("closed", vpc_id=vpc.id, ingress=[], egress=[], opts=inside)
key = kms.Key("key", enable_key_rotation=True, description=settings.require_secret("about"))
group = cloudwatch.LogGroup("logs", retention_in_days=settings.get_int("days") or 14)
role = iam.Role(
    "role",
    assume_role_policy={
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "vpc-flow-logs.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    },
)
ec2.FlowLog(
    "flows", vpc_id=vpc.id, log_destination=group.arn, iam_role_arn=role.arn, traffic_type="ALL", opts=inside
)
pulumi.export("vpc", vpc.id)
pulumi.export("group", group.name)
"""


@dataclass(frozen=True)
class Stage:
    """An engine, a cloud, and what stands on it."""

    engine: Engine
    url: str

    def ask(self, what: str) -> Any:
        with contextlib.closing(http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=10)) as line:
            line.request("GET", f"/_cloud/{what}")
            return json.load(line.getresponse())

    def run(self, *arguments: str) -> str:
        done = self.engine.run(*arguments)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def preview(self) -> dict[str, int]:
        """What a preview would do, by operation."""
        out = self.run("preview", "--json")
        return json.loads(out[out.index("{\n") :])["changeSummary"]

    def output(self, name: str) -> str:
        return self.run("stack", "output", name).strip().splitlines()[-1]

    def client(self, service: str) -> Any:
        keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
        return boto3.client(service, region_name="us-east-1", endpoint_url=self.url, **keys)


@pytest.fixture
def stage(engine: Engine, tmp_path: Path) -> Iterator[Stage]:
    ready = tmp_path / "cloud.json"
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "rehearsal.cloud", "--port", "0", "--ready-file", str(ready)]
    with subprocess.Popen(command, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as cloud:
        try:
            while not ready.exists():
                assert cloud.poll() is None, "the simulated cloud did not start"
                time.sleep(0.05)
            url = json.loads(ready.read_text(encoding="utf-8"))["url"]
            keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
            place = {"AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1", **keys}
            yield Stage(replace(engine, environment={**engine.environment, **place}), url)
        finally:
            cloud.terminate()
            cloud.wait(timeout=30)


def test_a_stack_comes_up_settles_and_goes_away(stage: Stage) -> None:
    (stage.engine.folder / "Pulumi.yaml").write_text(PROJECT, encoding="utf-8")
    (stage.engine.folder / "__main__.py").write_text(PROGRAM, encoding="utf-8")
    before = stage.ask("census")
    stage.run("stack", "init", "test")
    stage.run("config", "set", "--secret", "about", "nobody may read this")

    up = stage.run("up", "--yes", "--skip-preview")
    assert "Traceback" not in up
    assert "nobody may read this" not in stage.run("stack", "export")
    assert set(stage.preview()) == {"same"}

    vpc, group = stage.output("vpc"), stage.output("group")
    stage.client("ec2").modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": False})
    stage.client("logs").delete_log_group(logGroupName=group)
    stage.run("refresh", "--yes", "--skip-preview")
    found = stage.preview()
    # The log group is made again; what has its ARN is replaced once that is known to be another.
    assert found["create"] == 1
    assert found["update"] == 1
    stage.run("up", "--yes", "--skip-preview")
    assert set(stage.preview()) == {"same"}

    stage.run("config", "set", "owner", "them")
    stage.run("config", "set", "days", "30")
    assert stage.preview()["update"] == 2
    stage.run("up", "--yes", "--skip-preview")
    assert stage.client("logs").describe_log_groups()["logGroups"][0]["retentionInDays"] == 30

    stage.run("config", "set", "days", "31")
    refused = stage.engine.run("preview")
    assert refused.returncode != 0
    assert "retentionInDays" in refused.stdout
    assert "use one of" in refused.stdout
    stage.run("config", "set", "days", "30")

    stage.run("destroy", "--yes", "--skip-preview")
    left = {kind: ids for kind, ids in stage.ask("census").items() if kind != "kms.keys_pending"}
    assert left == before
