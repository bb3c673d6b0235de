"""The census: what exists shows, what is gone does not, what AWS itself provides never did."""

from collections.abc import Callable
from typing import Any

import pytest

from agentenv.rehearsal.cloud.census import NOT_THINGS, census
from agentenv.rehearsal.cloud.store import Store
from tests.fast.rehearsal.cloud.calls import allow, trust
from tests.fast.rehearsal.cloud.conftest import Census, ClientFactory

# What makes a thing, under which kind it shows, and what takes it away again.
THINGS: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "ec2.vpcs": (
        "ec2",
        lambda ec2: ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"],
        lambda ec2, name: ec2.delete_vpc(VpcId=name),
    ),
    "ec2.addresses": (
        "ec2",
        lambda ec2: ec2.allocate_address(Domain="vpc")["AllocationId"],
        lambda ec2, name: ec2.release_address(AllocationId=name),
    ),
    "ec2.key_pairs": (
        "ec2",
        lambda ec2: ec2.create_key_pair(KeyName="k")["KeyName"],
        lambda ec2, name: ec2.delete_key_pair(KeyName=name),
    ),
    "ec2.volumes": (
        "ec2",
        lambda ec2: ec2.create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"],
        lambda ec2, name: ec2.delete_volume(VolumeId=name),
    ),
    "ec2.launch_templates": (
        "ec2",
        lambda ec2: ec2.create_launch_template(LaunchTemplateName="t", LaunchTemplateData={"InstanceType": "t3.micro"})[
            "LaunchTemplate"
        ]["LaunchTemplateId"],
        lambda ec2, name: ec2.delete_launch_template(LaunchTemplateId=name),
    ),
    "ec2.instances": (
        "ec2",
        lambda ec2: ec2.run_instances(MinCount=1, MaxCount=1)["Instances"][0]["InstanceId"],
        lambda ec2, name: ec2.terminate_instances(InstanceIds=[name]),
    ),
    "iam.roles": (
        "iam",
        lambda iam: iam.create_role(RoleName="r", AssumeRolePolicyDocument=trust())["Role"]["RoleId"],
        lambda iam, _: iam.delete_role(RoleName="r"),
    ),
    "iam.policies": (
        "iam",
        lambda iam: iam.create_policy(PolicyName="p", PolicyDocument=allow())["Policy"]["Arn"],
        lambda iam, name: iam.delete_policy(PolicyArn=name),
    ),
    "logs.groups": (
        "logs",
        lambda logs: logs.create_log_group(logGroupName="g") and "g",
        lambda logs, name: logs.delete_log_group(logGroupName=name),
    ),
    "sqs.queues": (
        "sqs",
        lambda sqs: sqs.create_queue(QueueName="q")["QueueUrl"],
        lambda sqs, name: sqs.delete_queue(QueueUrl=name),
    ),
    "events.rules": (
        "events",
        lambda events: events.put_rule(Name="r", ScheduleExpression="rate(1 day)") and "default/r",
        lambda events, _: events.delete_rule(Name="r"),
    ),
    "sns.topics": (
        "sns",
        lambda sns: sns.create_topic(Name="t")["TopicArn"],
        lambda sns, name: sns.delete_topic(TopicArn=name),
    ),
    "s3.buckets": (
        "s3",
        lambda s3: s3.create_bucket(Bucket="counted") and "counted",
        lambda s3, name: s3.delete_bucket(Bucket=name),
    ),
    "dynamodb.tables": (
        "dynamodb",
        lambda dynamodb: dynamodb.create_table(
            TableName="ledger",
            KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )["TableDescription"]["TableName"],
        lambda dynamodb, name: dynamodb.delete_table(TableName=name),
    ),
    "ssm.parameters": (
        "ssm",
        lambda ssm: ssm.put_parameter(Name="p", Value="v", Type="String") and "p",
        lambda ssm, name: ssm.delete_parameter(Name=name),
    ),
    "ecr.repositories": (
        "ecr",
        lambda ecr: ecr.create_repository(repositoryName="repo")["repository"]["repositoryName"],
        lambda ecr, name: ecr.delete_repository(repositoryName=name),
    ),
    "route53.zones": (
        "route53",
        lambda route53: route53.create_hosted_zone(Name="example.com", CallerReference="1")["HostedZone"]["Id"],
        lambda route53, name: route53.delete_hosted_zone(Id=name),
    ),
    # Nobody listed this service anywhere: it has to show all the same.
    "athena.work_groups": (
        "athena",
        lambda athena: athena.create_work_group(Name="w", Configuration={}) and "w",
        lambda athena, name: athena.delete_work_group(WorkGroup=name),
    ),
}


@pytest.mark.parametrize("kind", THINGS)
def test_resource_is_in_the_census_until_it_is_deleted(aws_client: ClientFactory, census: Census, kind: str) -> None:
    service, make, unmake = THINGS[kind]
    client = aws_client(service)
    _touch(client, service)
    before = census()
    created = make(client)
    during = census()
    new = set(during.get(kind, [])) - set(before.get(kind, []))
    assert len(new) == 1, f"{kind} is not in {sorted(set(during) - set(before))}"
    assert str(created).rsplit("/", 1)[-1] in str(new) or kind in {"ec2.addresses", "sqs.queues"}
    unmake(client, created)
    assert census() == before


def _touch(client: Any, service: str) -> None:
    """Athena's own work group comes with its first call."""
    if service == "athena":
        client.list_work_groups()


def test_resources_provided_by_aws_are_not_counted(aws_client: ClientFactory, census: Census) -> None:
    ec2 = aws_client("ec2")
    own = [{"Name": "is-default", "Values": ["true"]}]
    default = [vpc["VpcId"] for vpc in ec2.describe_vpcs(Filters=own)["Vpcs"]]
    subnets = [subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"] if subnet["VpcId"] in default]
    buses = [bus["Name"] for bus in aws_client("events").list_event_buses()["EventBuses"]]
    policies = [policy["Arn"] for policy in aws_client("iam").list_policies(Scope="AWS")["Policies"]]
    lists = [prefix_list["PrefixListId"] for prefix_list in ec2.describe_managed_prefix_lists()["PrefixLists"]]
    assert all((default, subnets, buses, policies, lists))
    counted = {name for names in census().values() for name in names}
    assert counted.isdisjoint({*default, *subnets, *buses, *policies, *lists})


def test_resources_in_the_default_vpc_are_counted(aws_client: ClientFactory, census: Census) -> None:
    ec2 = aws_client("ec2")
    group = ec2.create_security_group(GroupName="mine", Description="d")["GroupId"]
    assert group in census()["ec2.groups"]
    ec2.delete_security_group(GroupId=group)
    assert group not in census().get("ec2.groups", [])


def test_stored_resources_are_counted_but_declarations_are_not() -> None:
    store = Store()
    store.records("eks.things", "1", "us-east-1")["a"] = {}
    store.records("eks.things", "2", "eu-west-1")["b"] = {}
    store.records("_eks.sayings", "1", "us-east-1")["c"] = {}
    assert census(store)["eks.things"] == ["a", "b"]
    assert "_eks.sayings" not in census(store)


def test_every_exclusion_names_an_existing_kind() -> None:
    """A collection that moto renamed would be left out in vain."""
    backends = pytest.importorskip("moto.backends")
    for service in ("ec2", "efs", "iam", "kms", "sns", "logs"):
        regions = backends.get_backend(service)["123456789012"]
        backend = regions["us-east-1"] if "us-east-1" in regions else regions["aws"]
        assert NOT_THINGS[service] <= set(vars(backend)), service


def test_access_keys_of_users_are_counted_but_session_keys_are_not(aws_client: ClientFactory, census: Census) -> None:
    before = census()
    aws_client("sts").assume_role(RoleArn="arn:aws:iam::123456789012:role/somebody", RoleSessionName="session")
    assert census() == before
    iam = aws_client("iam")
    iam.create_user(UserName="counted")
    key = iam.create_access_key(UserName="counted")["AccessKey"]["AccessKeyId"]
    assert key in str({kind: names for kind, names in census().items() if names != before.get(kind)})
    iam.delete_access_key(UserName="counted", AccessKeyId=key)
    iam.delete_user(UserName="counted")
    assert census() == before


def test_aws_managed_key_cannot_be_deleted(aws_client: ClientFactory, census: Census) -> None:
    before = census()
    created = aws_client("dynamodb")
    created.create_table(
        TableName="t",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        SSESpecification={"Enabled": True, "SSEType": "KMS"},
    )
    assert "alias/aws/dynamodb" in [alias["AliasName"] for alias in aws_client("kms").list_aliases()["Aliases"]]
    created.delete_table(TableName="t")
    assert census() == before
