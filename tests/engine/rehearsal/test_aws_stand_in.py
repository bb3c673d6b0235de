"""The stand-in aws provider under the real engine: up, no change, drift, update, destroy, and retained resources."""

from __future__ import annotations

from agentenv.rehearsal.stage.credentials import client
from agentenv.rehearsal.stage.engine import Engine, Outcome
from agentenv.rehearsal.stage.stage import Stage
from tests.isolated_engine import Engine as Installed

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


def project(engine: Installed, opened: Stage) -> Engine:
    """The program with the stand-in, even where the official plugin is installed, with the worker's cloud."""
    (engine.folder / "Pulumi.yaml").write_text(PROJECT, encoding="utf-8")
    (engine.folder / "__main__.py").write_text(PROGRAM, encoding="utf-8")
    logs = engine.folder.parent / "logs"
    logs.mkdir()
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    place = {"AWS_ENDPOINT_URL": opened.cloud, "AWS_REGION": "us-east-1", **keys}
    installed = Engine(engine.pulumi, engine.folder, "test", {**engine.environment, **place}, logs)
    installed.init()
    installed.call("config", "set", "--secret", "about", "nobody may read this")
    return installed


def named(outcome: Outcome) -> set[tuple[str, str]]:
    """Return operation and name of each changed resource."""
    return {(operation, urn.rsplit("::", 1)[-1]) for operation, urn, _ in outcome.changed_resources()}


def test_stack_is_deployed_settles_and_is_destroyed(engine: Installed, opened: Stage) -> None:
    before = set(opened.leftovers())
    stack = project(engine, opened)
    assert "Traceback" not in stack.up().output
    assert "nobody may read this" not in stack.call("stack", "export")
    first = stack.outputs()

    # Nothing else changes, so a second update has nothing to do.
    stack.call("config", "set-all", "--plaintext", "owner=them", "--plaintext", "days=30")
    assert named(stack.up()) == {("update", "net"), ("update", "logs")}
    outputs = stack.outputs()
    assert outputs == first
    ec2, logs = client("ec2", stack.environment), client("logs", stack.environment)
    [group] = logs.describe_log_groups(logGroupNamePrefix=outputs["group"])["logGroups"]
    assert group["retentionInDays"] == 30

    ec2.modify_vpc_attribute(VpcId=outputs["vpc"], EnableDnsHostnames={"Value": False})
    logs.delete_log_group(logGroupName=outputs["group"])
    assert named(stack.refresh()) >= {("update", "net"), ("delete", "logs")}
    # The log group is replaced under another name, and so are resources with its ARN.
    steps = {"create-replacement", "delete-replaced"}  # of a replacement
    mended = {(operation, name) for operation, name in named(stack.up()) if operation not in steps}
    assert mended == {("update", "net"), ("create", "logs"), ("replace", "flows")}

    stack.call("config", "set", "days", "31")
    refused = stack.preview(check=False)
    assert refused.code != 0
    assert "retentionInDays" in refused.output
    assert "use one of" in refused.output

    stack.destroy()
    assert stack.state() == []
    assert set(opened.leftovers()) == before
