"""Mistakes refused at preview without an endpoint, each by the path of its property."""

import json
from typing import Any

import pytest

from agentenv.rehearsal.providers.aws import provider_config
from agentenv.rehearsal.providers.aws.provider import Provider, Unsupported
from agentenv.rehearsal.providers.common.property_values import UNKNOWN
from tests.fast.rehearsal.providers.aws.samples.sample import ALLOW, TRUST

VPC = "aws:ec2/vpc:Vpc"
GROUP = "aws:cloudwatch/logGroup:LogGroup"
KEY = "aws:kms/key:Key"
ROLE = "aws:iam/role:Role"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
ACCESS_POINT = "aws:efs/accessPoint:AccessPoint"
CLUSTER = "aws:eks/cluster:Cluster"
QUEUE = "aws:sqs/queue:Queue"
ALARM = "aws:cloudwatch/metricAlarm:MetricAlarm"
ANY_ROLE = "arn:aws:iam::123456789012:role/any"
EKS: dict[str, Any] = {
    "roleArn": ANY_ROLE,
    "vpcConfig": {"subnetIds": ["subnet-1", "subnet-2"], "endpointPrivateAccess": False, "endpointPublicAccess": True},
}
OIDC = {"clientIdLists": ["sts.amazonaws.com"]}
SERVICE_RANGE = "kubernetesNetworkConfig.serviceIpv4Cidr"


@pytest.fixture
def unplugged() -> Provider:
    """A provider that could not call anything if it tried."""
    return Provider(provider_config.configuration({"region": "us-east-1"}, {}))


UNSUPPORTED: list[tuple[str, dict[str, Any], str, str]] = [
    (VPC, {"cidrBlock": "10.0.0.1/16"}, "cidrBlock", "host bits"),
    (VPC, {"cidrBlock": "10.0.0.0"}, "cidrBlock", "prefix length"),
    (VPC, {"cidrBlock": "ten"}, "cidrBlock", "not an IPv4 CIDR"),
    (VPC, {"cidrBlock": "10.0.0.0/8"}, "cidrBlock", "/16 to /28"),
    (VPC, {}, "cidrBlock", "none is set"),
    (VPC, {"cidrBlok": "10.0.0.0/16"}, "cidrBlok", "did you mean 'cidrBlock'"),
    (VPC, {"cidrBlock": "10.0.0.0/16", "enableDnsSupport": "perhaps"}, "enableDnsSupport", "boolean"),
    (VPC, {"cidrBlock": "10.0.0.0/16", "instanceTenancy": "shared"}, "instanceTenancy", "default, dedicated"),
    (VPC, {"cidrBlock": "10.0.0.0/16", "tags": ["a"]}, "tags", "must be a map"),
    (VPC, {"cidrBlock": "10.0.0.0/16", "tags": {"aws:a": "b"}}, 'tags["aws:a"]', "aws:"),
    (VPC, {"ipv4IpamPoolId": "ipam-pool-1"}, "ipv4IpamPoolId", "IPAM"),
    (GROUP, {"retentionInDays": 15}, "retentionInDays", "14, 30"),
    (GROUP, {"retentionInDays": "a week"}, "retentionInDays", "integer"),
    (GROUP, {"kmsKeyId": "my-key"}, "kmsKeyId", "not an ARN"),
    (GROUP, {"name": "with space"}, "name", "does not match"),
    (KEY, {"deletionWindowInDays": 31}, "deletionWindowInDays", "7 to 30"),
    (KEY, {"policy": "{"}, "policy", "not valid JSON"),
    (KEY, {"policy": "[]"}, "policy", "not an object"),
    (KEY, {"keyUsage": "ENCRYPT"}, "keyUsage", "did you mean"),
    (ROLE, {}, "assumeRolePolicy", "required"),
    (ROLE, {"assumeRolePolicy": json.dumps({"Version": "2012-10-17"})}, "assumeRolePolicy", "Statement"),
    (ROLE, {"assumeRolePolicy": TRUST, "managedPolicyArns": ["ReadOnly"]}, "managedPolicyArns[0]", "not an ARN"),
    (ROLE, {"assumeRolePolicy": TRUST, "maxSessionDuration": 60}, "maxSessionDuration", "3600 to 43200"),
    (ROLE, {"assumeRolePolicy": TRUST, "name": "n" * 65}, "name", "at most 64"),
    (INGRESS, {"securityGroupId": "sg-1", "ipProtocol": "tcp"}, "cidrIpv4", "exactly one of"),
    (
        INGRESS,
        {"securityGroupId": "sg-1", "ipProtocol": "tcp", "cidrIpv4": "10.0.0.0/8", "prefixListId": "pl-1"},
        "cidrIpv4",
        "exactly one of",
    ),
    (
        SECURITY_GROUP,
        {"ingress": [{"protocol": "tcp", "fromPort": 1, "toPort": 1, "cidrBlocks": ["10.0.0.9/8"]}]},
        "ingress[0].cidrBlocks[0]",
        "host bits",
    ),
    (SECURITY_GROUP, {"ingress": [{"protocol": "tcp", "fromPort": 1, "toPort": 1}]}, "ingress[0]", "no source"),
    (SECURITY_GROUP, {"ingress": [{"protocol": "tcp", "toPort": 1, "self": True}]}, "ingress[0].fromPort", "required"),
    (SECURITY_GROUP, {"description": "the team's group"}, "description", "not a description"),
    (
        ACCESS_POINT,
        {"fileSystemId": "fs-12345678", "posixUser": {"uid": 1, "gid": 1, "uuid": 2}},
        "posixUser.uuid",
        "did you mean",
    ),
    (
        ACCESS_POINT,
        {"fileSystemId": "fs-12345678", "rootDirectory": {"path": "no-slash"}},
        "rootDirectory.path",
        "does not match",
    ),
    (
        "aws:ec2/flowLog:FlowLog",
        {"vpcId": "vpc-1", "trafficType": "ALL", "maxAggregationInterval": 120},
        "maxAggregationInterval",
        "60, 600",
    ),
    # The validations of the official plugin, as its runs over the rehearsal showed them.
    ("aws:iam/openIdConnectProvider:OpenIdConnectProvider", {**OIDC, "url": "http://oidc.example.com"}, "url", "https"),
    (CLUSTER, {**EKS, "kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.0.0.0/8"}}, SERVICE_RANGE, "/12 to /24"),
    (CLUSTER, {**EKS, "kubernetesNetworkConfig": {"serviceIpv4Cidr": "100.64.0.0/16"}}, SERVICE_RANGE, "is not in"),
    (
        "aws:eks/accessEntry:AccessEntry",
        {"clusterName": "one", "principalArn": ANY_ROLE, "type": "EC2_MAC"},
        "type",
        "FARGATE_LINUX",
    ),
    (
        "aws:eks/fargateProfile:FargateProfile",
        {"clusterName": "one", "podExecutionRoleArn": ANY_ROLE, "selectors": []},
        "selectors",
        "one to five",
    ),
    (
        INGRESS,
        {"securityGroupId": "sg-1", "ipProtocol": "tcp", "cidrIpv4": "10.0.0.0/8", "fromPort": 1, "toPort": 65536},
        "toPort",
        "-1 to 65535",
    ),
    (SECURITY_GROUP, {"name": "sg-nodes"}, "name", "begins with sg-"),
    (
        "aws:ec2/natGateway:NatGateway",
        {"subnetId": "subnet-1", "connectivityType": "private", "allocationId": "eipalloc-1"},
        "allocationId",
        "private NAT gateway",
    ),
    (QUEUE, {"name": "with space"}, "name", "not a queue's name"),
    (QUEUE, {"name": "queue", "fifoQueue": True}, "name", ".fifo"),
    (ALARM, {"evaluationPeriods": 1, "comparisonOperator": "GreaterThanThreshold", "period": 45}, "period", "of 60"),
    ("aws:cloudwatch/eventRule:EventRule", {"description": "nothing"}, "eventPattern", "scheduleExpression"),
    ("aws:athena/workgroup:Workgroup", {"name": "with space"}, "name", "not a workgroup's name"),
    (
        "aws:ec2/route:Route",
        {"routeTableId": "rtb-1", "destinationCidrBlock": "0.0.0.0/0"},
        "carrierGatewayId",
        "exactly one",
    ),
]


@pytest.mark.parametrize(("token", "inputs", "path", "reason"), UNSUPPORTED)
def test_a_mistake_is_named(unplugged: Provider, token: str, inputs: dict[str, Any], path: str, reason: str) -> None:
    _, problems = unplugged.check(token, "thing", inputs, {})
    assert [p for p, _ in problems] == [path]
    assert reason in problems[0][1]


def test_all_mistakes_are_reported_at_once(unplugged: Provider) -> None:
    wrong = {"cidrBlock": "10.0.0.0/40", "instanceTenancy": "none", "colour": "red"}
    _, problems = unplugged.check(VPC, "thing", wrong, {})
    assert {path for path, _ in problems} == {"cidrBlock", "instanceTenancy", "colour"}


@pytest.mark.parametrize(
    ("token", "inputs"),
    [
        (VPC, {"cidrBlock": UNKNOWN}),
        (GROUP, {"retentionInDays": UNKNOWN, "kmsKeyId": UNKNOWN, "tags": UNKNOWN}),
        (ROLE, {"assumeRolePolicy": UNKNOWN, "inlinePolicies": [{"name": "a", "policy": UNKNOWN}]}),
        (INGRESS, {"securityGroupId": UNKNOWN, "ipProtocol": "tcp", "referencedSecurityGroupId": UNKNOWN}),
        (CLUSTER, {**EKS, "kubernetesNetworkConfig": {"serviceIpv4Cidr": UNKNOWN}}),
        (QUEUE, {"name": UNKNOWN, "fifoQueue": True}),
        ("aws:cloudwatch/eventRule:EventRule", {"eventPattern": UNKNOWN}),
        (ALARM, {"evaluationPeriods": 1, "comparisonOperator": "GreaterThanThreshold", "period": UNKNOWN}),
        (ACCESS_POINT, {"fileSystemId": UNKNOWN, "posixUser": {"uid": UNKNOWN, "gid": 1}}),
        (
            SECURITY_GROUP,
            {"vpcId": UNKNOWN, "ingress": [{"protocol": "tcp", "fromPort": UNKNOWN, "toPort": 1, "self": UNKNOWN}]},
        ),
    ],
)
def test_an_unknown_passes_untouched(unplugged: Provider, token: str, inputs: dict[str, Any]) -> None:
    checked, problems = unplugged.check(token, "thing", inputs, {})
    assert problems == []
    assert {name: checked[name] for name in inputs} == inputs


def test_a_secret_value_is_not_in_the_message(unplugged: Provider) -> None:
    _, problems = unplugged.check(KEY, "thing", {"keyUsage": "hunter2hunter2"}, {}, secrets=frozenset({("keyUsage",)}))
    assert [path for path, _ in problems] == ["keyUsage"]
    assert "hunter2" not in problems[0][1]


def test_a_policy_may_be_an_object(unplugged: Provider) -> None:
    checked, problems = unplugged.check(ROLE, "thing", {"assumeRolePolicy": json.loads(TRUST)}, {})
    assert problems == []
    assert json.loads(checked["assumeRolePolicy"]) == json.loads(TRUST)


def test_queue_has_the_largest_message_that_the_official_plugin_sets(unplugged: Provider) -> None:
    assert unplugged.check(QUEUE, "thing", {}, {})[0]["maxMessageSize"] == 262144


def test_texts_are_converted_to_the_types_of_the_schema(unplugged: Provider) -> None:
    checked, problems = unplugged.check(GROUP, "thing", {"retentionInDays": "30", "skipDestroy": "true"}, {})
    assert problems == []
    assert (checked["retentionInDays"], checked["skipDestroy"]) == (30, True)


# -- names ------------------------------------------------------------------------------------------------------------


def test_name_is_generated_once(unplugged: Provider) -> None:
    first, _ = unplugged.check(ROLE, "nodes", {"assumeRolePolicy": TRUST}, {}, seed=b"one")
    again, _ = unplugged.check(ROLE, "nodes", {"assumeRolePolicy": TRUST}, first, seed=b"two")
    other, _ = unplugged.check(ROLE, "nodes", {"assumeRolePolicy": TRUST}, {}, seed=b"two")
    prefix, _, suffix = first["name"].rpartition("-")
    assert prefix == "nodes"
    assert len(suffix) == 7
    assert again["name"] == first["name"]
    assert other["name"] != first["name"]


def test_too_long_name_is_refused(unplugged: Provider) -> None:
    _, problems = unplugged.check(ROLE, "n" * 60, {"assumeRolePolicy": TRUST}, {})
    assert [path for path, _ in problems] == ["name"]
    assert "at most 56 characters" in problems[0][1]


def test_auto_naming_of_the_engine_is_honored(unplugged: Provider) -> None:
    proposed, _ = unplugged.check(ROLE, "nodes", {"assumeRolePolicy": TRUST}, {}, proposed="ours-nodes")
    assert proposed["name"] == "ours-nodes"
    _, problems = unplugged.check(ROLE, "nodes", {"assumeRolePolicy": TRUST}, {}, naming_off=True)
    assert [path for path, _ in problems] == ["name"]


def test_an_alias_gets_its_prefix(unplugged: Provider) -> None:
    checked, problems = unplugged.check("aws:kms/alias:Alias", "files", {"targetKeyId": UNKNOWN}, {})
    assert problems == []
    assert checked["name"].startswith("alias/files-")


# -- differences ------------------------------------------------------------------------------------------------------


def test_equivalent_policy_is_no_change(unplugged: Provider) -> None:
    other = {
        "Statement": {"Action": ["sts:AssumeRole"], "Principal": {"Service": ["ec2.amazonaws.com"]}, "Effect": "Allow"},
        "Version": "2012-10-17",
    }
    old = {
        "assumeRolePolicy": TRUST,
        "inlinePolicies": [{"name": "a", "policy": ALLOW}, {"name": "b", "policy": ALLOW}],
    }
    new = {
        "assumeRolePolicy": json.dumps(other),
        "inlinePolicies": [
            {"name": "b", "policy": ALLOW},
            {"name": "a", "policy": json.dumps(json.loads(ALLOW), indent=2)},
        ],
    }
    assert unplugged.diff(ROLE, old, new).changes == []
    opened = json.dumps({**other, "Statement": {**other["Statement"], "Principal": "*"}})
    assert unplugged.diff(ROLE, old, {**new, "assumeRolePolicy": opened}).changes != []


def test_order_of_a_set_is_no_change(unplugged: Provider) -> None:
    rule = {"protocol": "tcp", "fromPort": 443, "toPort": 443, "cidrBlocks": ["10.0.0.0/8", "192.168.0.0/16"]}
    cut = [{**rule, "cidrBlocks": [block]} for block in reversed(rule["cidrBlocks"])]
    assert unplugged.diff(SECURITY_GROUP, {"ingress": [rule]}, {"ingress": cut}).changes == []
    assert unplugged.diff(SECURITY_GROUP, {"ingress": [rule]}, {"ingress": cut[:1]}).changes != []


def test_default_of_the_cloud_is_no_change(unplugged: Provider) -> None:
    old = {"cidrBlock": "10.0.0.0/16", "enableDnsHostnames": True}
    assert unplugged.diff(VPC, old, {"cidrBlock": "10.0.0.0/16"}).changes == []


def test_a_detailed_diff_names_the_part(unplugged: Provider) -> None:
    old = {"posixUser": {"uid": 1, "gid": 1}, "tags": {"a": "1", "b": "2"}}
    new = {"posixUser": {"uid": 2, "gid": 1}, "tags": {"a": "1", "c": "3"}}
    result = unplugged.diff(ACCESS_POINT, old, new)
    assert {(change.path, change.verb, change.replaces) for change in result.changes} == {
        (("posixUser", "uid"), "update", True),
        (("tags", "b"), "delete", False),
        (("tags", "c"), "add", False),
    }
    assert result.replaces == ["posixUser"]


def test_ignored_changes_are_ignored(unplugged: Provider) -> None:
    result = unplugged.diff(VPC, {"tags": {"a": "1"}}, {"tags": {"a": "2"}, "cidrBlock": "10.0.0.0/16"}, ("tags",))
    assert [change.path for change in result.changes] == [("cidrBlock",)]


def test_resource_with_a_fixed_name_is_deleted_before_replacement(unplugged: Provider) -> None:
    old, new = {"name": "nodes", "path": "/"}, {"name": "nodes", "path": "/a/"}
    assert unplugged.diff(ROLE, old, new).delete_before_replace
    assert not unplugged.diff(ROLE, old, {**new, "name": "others"}).delete_before_replace
    created = {**new, "__defaults": ["name"]}
    assert not unplugged.diff(ROLE, {**old, "__defaults": ["name"]}, created).delete_before_replace


def test_an_unknown_is_a_change(unplugged: Provider) -> None:
    result = unplugged.diff("aws:ec2/subnet:Subnet", {"vpcId": "vpc-1"}, {"vpcId": UNKNOWN})
    assert result.replaces == ["vpcId"]


def test_update_preview_has_unchanged_outputs(unplugged: Provider) -> None:
    state = {"arn": "arn", "attachmentCount": 1, "policy": ALLOW, "description": "d", "tagsAll": {}}
    out = unplugged.preview_update(
        "aws:iam/policy:Policy", state, {"policy": "{}", "description": "d", "tags": {"a": "b"}}
    )
    assert (out["arn"], out["policy"], out["tagsAll"]) == ("arn", "{}", {"a": "b"})
    assert out["attachmentCount"] is UNKNOWN


# -- settings ---------------------------------------------------------------------------------------------------------

AT_HOME = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_REGION": "us-east-1"}


@pytest.mark.parametrize(
    ("values", "environment", "key", "reason"),
    [
        ({}, {"AWS_REGION": "us-east-1"}, "endpoints", "never calls AWS itself"),
        ({}, {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "region", "aws:region"),
        ({"regoin": "x"}, AT_HOME, "regoin", "did you mean 'region'"),
        ({"httpProxy": "x"}, AT_HOME, "httpProxy", "official aws plugin"),
        ({"defaultTags": '{"owner":"me"}'}, AT_HOME, "defaultTags", "tags"),
    ],
)
def test_a_wrong_setting_is_named(values: dict[str, Any], environment: dict[str, str], key: str, reason: str) -> None:
    problems = provider_config.check(values, environment)
    assert [name for name, _ in problems] == [key]
    assert reason in problems[0][1]


def test_settings_reach_the_calls() -> None:
    values = {
        "region": "eu-west-1",
        "endpoints": json.dumps([{"ec2": "http://127.0.0.1:2"}]),
        "defaultTags": json.dumps({"tags": {"owner": "platform"}}),
        "allowedAccountIds": json.dumps(["123456789012"]),
        "maxRetries": "1",
        "skipCredentialsValidation": "true",
    }
    assert provider_config.check(values, AT_HOME) == []
    result = provider_config.configuration(values, AT_HOME)
    assert (result.access.region, result.access.attempts) == ("eu-west-1", 1)
    assert (result.access.endpoint_of("ec2"), result.access.endpoint_of("iam")) == (
        "http://127.0.0.1:2",
        "http://127.0.0.1:1",
    )
    assert result.access.allowed == {"123456789012"}
    assert result.tags == {"owner": "platform"}


def test_default_tags_are_in_the_inputs() -> None:
    tagging = Provider(provider_config.configuration({"defaultTags": '{"tags":{"owner":"all","a":"b"}}'}, AT_HOME))
    checked, _ = tagging.check(VPC, "thing", {"cidrBlock": "10.0.0.0/16", "tags": {"owner": "me"}}, {})
    assert checked["tags"] == {"owner": "me", "a": "b"}
    assert "tags" not in tagging.check("aws:iam/rolePolicyAttachment:RolePolicyAttachment", "x", {"role": "r"}, {})[0]


def test_unknown_type_is_named(unplugged: Provider) -> None:
    with pytest.raises(Unsupported, match="did you mean 'aws:ec2/vpc:Vpc'"):
        unplugged.check("aws:ec2/vpcc:Vpcc", "thing", {}, {})
