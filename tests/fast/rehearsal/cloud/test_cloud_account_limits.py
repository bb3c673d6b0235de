"""What preflight asks of an account: quotas, instance types, node images, and IAM's policy simulation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentenv.core.pinned_versions import releases
from tests.fast.rehearsal.cloud.calls import ACCOUNT, allow, refused, trust
from tests.fast.rehearsal.cloud.conftest import ClientFactory

ROLE = f"arn:aws:iam::{ACCOUNT}:role/teams/pipeline"
SPOT = {"ServiceCode": "ec2", "QuotaCode": "L-34B43A08"}


def test_quota_is_that_of_a_fresh_account_until_it_is_raised(aws_client: ClientFactory) -> None:
    quotas = aws_client("service-quotas")
    assert quotas.get_service_quota(**SPOT)["Quota"]["Value"] == 5
    assert quotas.request_service_quota_increase(**SPOT, DesiredValue=200)["RequestedQuota"]["Status"] == "APPROVED"
    assert quotas.get_service_quota(**SPOT)["Quota"]["Value"] == 200
    assert quotas.get_aws_default_service_quota(**SPOT)["Quota"]["Value"] == 5
    listed = {row["QuotaCode"]: row["Value"] for row in quotas.list_service_quotas(ServiceCode="ec2")["Quotas"]}
    assert listed[SPOT["QuotaCode"]] == 200
    with refused("IllegalArgumentException"):
        quotas.request_service_quota_increase(**SPOT, DesiredValue=100)
    with refused("IllegalArgumentException"):
        fixed = {"ServiceCode": "elasticloadbalancing", "QuotaCode": "L-822D1B1B"}
        quotas.request_service_quota_increase(**fixed, DesiredValue=500)
    with refused("NoSuchResourceException"):
        quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-00000000")


def test_patterns_select_instance_types(aws_client: ClientFactory) -> None:
    ec2 = aws_client("ec2")
    zone = {"Name": "location", "Values": ["us-east-1a"]}

    def offered(*patterns: str) -> set[str]:
        filters = [zone, {"Name": "instance-type", "Values": list(patterns)}]
        pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone", Filters=filters
        )
        return {row["InstanceType"].partition(".")[0] for page in pages for row in page["InstanceTypeOfferings"]}

    assert offered("m8g.*", "c8i.large") == {"m8g", "c8i"}
    assert offered("nothing.*") == set()
    [kind] = ec2.describe_instance_types(Filters=[{"Name": "instance-type", "Values": ["m8g.larg?"]}])["InstanceTypes"]
    assert kind["InstanceType"] == "m8g.large"


def test_node_image_of_a_published_release_exists(aws_client: ClientFactory) -> None:
    release = releases().node_image.partition("@")[2]

    def parameter(processor: str, release: str) -> str:
        name = f"amazon-eks-node-al2023-{processor}-standard-1.35-{release}"
        return f"/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/{processor}/standard/{name}/image_id"

    image = aws_client("ssm").get_parameter(Name=parameter("arm64", release))["Parameter"]["Value"]
    [described] = aws_client("ec2").describe_images(ImageIds=[image])["Images"]
    assert described["Architecture"] == "arm64"
    assert aws_client("ssm").get_parameter(Name=parameter("x86_64", release))["Parameter"]["Value"] != image
    with refused("ParameterNotFound"):
        aws_client("ssm").get_parameter(Name=parameter("arm64", "v20200101"))


@pytest.fixture
def role(aws_client: ClientFactory) -> Iterator[str]:
    iam = aws_client("iam")
    boundary = allow(Action="ec2:*", Resource="*")
    arn = iam.create_policy(PolicyName="limit", PolicyDocument=boundary)["Policy"]["Arn"]
    iam.create_role(Path="/teams/", RoleName="pipeline", AssumeRolePolicyDocument=trust())
    iam.put_role_policy(
        RoleName="pipeline", PolicyName="own", PolicyDocument=allow(Action=["ec2:CreateVpc", "s3:*"], Resource="*")
    )
    iam.put_role_policy(
        RoleName="pipeline",
        PolicyName="tagged",
        PolicyDocument=allow(
            Action="ec2:CreateSubnet", Resource="*", Condition={"StringEquals": {"aws:RequestTag/team": "a"}}
        ),
    )
    iam.put_role_policy(
        RoleName="pipeline", PolicyName="never", PolicyDocument=allow(Effect="Deny", Action="s3:DeleteBucket")
    )
    yield arn
    for name in ("own", "tagged", "never"):
        iam.delete_role_policy(RoleName="pipeline", PolicyName=name)
    iam.delete_role(RoleName="pipeline")
    iam.delete_policy(PolicyArn=arn)


def test_simulation_has_the_policies_of_the_role_and_its_boundary(aws_client: ClientFactory, role: str) -> None:
    iam = aws_client("iam")

    def decisions(*actions: str) -> dict[str, tuple[str, list[str]]]:
        results = iam.simulate_principal_policy(PolicySourceArn=ROLE, ActionNames=list(actions))["EvaluationResults"]
        return {row["EvalActionName"]: (row["EvalDecision"], row["MissingContextValues"]) for row in results}

    assert decisions("ec2:CreateVpc", "s3:CreateBucket", "s3:DeleteBucket", "ec2:DeleteVpc", "ec2:CreateSubnet") == {
        "ec2:CreateVpc": ("allowed", []),
        "s3:CreateBucket": ("allowed", []),
        "s3:DeleteBucket": ("explicitDeny", []),
        "ec2:DeleteVpc": ("implicitDeny", []),
        "ec2:CreateSubnet": ("implicitDeny", ["aws:RequestTag/team"]),
    }
    iam.put_role_permissions_boundary(RoleName="pipeline", PermissionsBoundary=role)
    assert decisions("ec2:CreateVpc", "s3:CreateBucket") == {
        "ec2:CreateVpc": ("allowed", []),
        "s3:CreateBucket": ("implicitDeny", []),
    }
    iam.delete_role_permissions_boundary(RoleName="pipeline")
    with refused("InvalidInput"):
        session = f"arn:aws:sts::{ACCOUNT}:assumed-role/pipeline/run"
        iam.simulate_principal_policy(PolicySourceArn=session, ActionNames=["ec2:CreateVpc"])
    with refused("NoSuchEntity"):
        iam.simulate_principal_policy(PolicySourceArn=f"{ROLE}-2", ActionNames=["ec2:CreateVpc"])
