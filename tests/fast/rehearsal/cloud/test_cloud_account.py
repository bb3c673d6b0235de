"""IAM, KMS, Logs and S3: documents that would not be taken, and what may not go while it is in use."""

import json
import urllib.request
from typing import Any

import pytest
from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import AWSManagedPolicy, IAMBackend, iam_backends

from agentenv.rehearsal.cloud.server import Cloud
from tests.fast.rehearsal.cloud.calls import allow, refused, trust
from tests.fast.rehearsal.cloud.conftest import Census, ClientFactory


def key_policy(principal: str, action: str = "kms:*") -> str:
    return allow(Principal={"AWS": principal}, Action=action)


def test_trust_policies_are_validated(aws_client: ClientFactory) -> None:
    iam = aws_client("iam")
    for text in (
        "{}",
        "{",
        '{"Version":"2012-10-17","Version":"2012-10-17","Statement":[]}',
        allow(),
        trust().replace('"Effect"', '"Resource": "*", "Effect"'),
        trust("eks"),
        trust().replace("2012-10-17", "2026-11-18"),
        trust().replace('{"Service": "eks.amazonaws.com"}', '{"AWS": "arn:aws:iam::123456789012:role/nobody"}'),
    ):
        with refused("MalformedPolicyDocument"):
            iam.create_role(RoleName="r", AssumeRolePolicyDocument=text)
    with refused("LimitExceeded"):
        iam.create_role(RoleName="r", AssumeRolePolicyDocument=trust().replace("sts:AssumeRole", f"sts:{'A' * 2048}"))


@pytest.mark.usefixtures("unchanged")
def test_roles_and_policies_in_use_are_not_deleted(aws_client: ClientFactory) -> None:
    iam = aws_client("iam")
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=trust())
    with refused("EntityAlreadyExists"):
        iam.create_role(RoleName="r", AssumeRolePolicyDocument=trust())
    aws = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
    iam.attach_role_policy(RoleName="r", PolicyArn=aws)
    with refused("NoSuchEntity"):
        iam.attach_role_policy(RoleName="r", PolicyArn=aws + "s")
    with refused("DeleteConflict"):
        iam.delete_role(RoleName="r")
    iam.detach_role_policy(RoleName="r", PolicyArn=aws)

    iam.put_role_policy(RoleName="r", PolicyName="inline", PolicyDocument=allow())
    for text in ("{}", trust(), allow(Action="GetObject"), allow(Resource="bucket"), allow(Condition={"StringIs": {}})):
        with refused("MalformedPolicyDocument"):
            iam.put_role_policy(RoleName="r", PolicyName="other", PolicyDocument=text)
    with refused("LimitExceeded"):
        iam.put_role_policy(RoleName="r", PolicyName="long", PolicyDocument=allow(Action=f"s3:{'A' * 10150}"))
    with refused("DeleteConflict"):
        iam.delete_role(RoleName="r")
    iam.delete_role_policy(RoleName="r", PolicyName="inline")

    own = iam.create_policy(PolicyName="own", PolicyDocument=allow())["Policy"]["Arn"]
    with refused("LimitExceeded"):
        iam.create_policy(PolicyName="long", PolicyDocument=allow(Action=f"s3:{'A' * 6144}"))
    iam.attach_role_policy(RoleName="r", PolicyArn=own)
    with refused("DeleteConflict"):
        iam.delete_policy(PolicyArn=own)
    iam.detach_role_policy(RoleName="r", PolicyArn=own)
    version = iam.create_policy_version(PolicyArn=own, PolicyDocument=allow())["PolicyVersion"]["VersionId"]
    with refused("DeleteConflict"):
        iam.delete_policy(PolicyArn=own)
    iam.delete_policy_version(PolicyArn=own, VersionId=version)
    iam.delete_policy(PolicyArn=own)

    iam.create_instance_profile(InstanceProfileName="p")
    iam.add_role_to_instance_profile(InstanceProfileName="p", RoleName="r")
    with refused("LimitExceeded"):
        iam.add_role_to_instance_profile(InstanceProfileName="p", RoleName="r")
    with refused("DeleteConflict"):
        iam.delete_instance_profile(InstanceProfileName="p")
    with refused("DeleteConflict"):
        iam.delete_role(RoleName="r")
    iam.remove_role_from_instance_profile(InstanceProfileName="p", RoleName="r")
    iam.delete_instance_profile(InstanceProfileName="p")
    iam.delete_role(RoleName="r")
    with refused("ValidationError"):
        iam.create_open_id_connect_provider(Url="http://example.com")


def test_key_policy_that_locks_everyone_out_is_refused(aws_client: ClientFactory, census: Census) -> None:
    kms = aws_client("kms")
    root = "arn:aws:iam::123456789012:root"
    key = kms.create_key(Policy=key_policy(root))["KeyMetadata"]["KeyId"]
    for text in (
        "{}",
        key_policy(root, action="kms:Decrypt"),
        key_policy("arn:aws:iam::999999999999:root"),
        key_policy("arn:aws:iam::123456789012:role/nobody"),
    ):
        with refused("MalformedPolicyDocumentException"):
            kms.put_key_policy(KeyId=key, PolicyName="default", Policy=text)
        with refused("MalformedPolicyDocumentException"):
            kms.create_key(Policy=text)
    with refused("UnsupportedOperationException"):
        kms.get_public_key(KeyId=key)
    signing = kms.create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"]
    assert kms.get_public_key(KeyId=signing)["PublicKey"]
    kms.create_alias(AliasName="alias/a", TargetKeyId=key)
    for name, code in (
        ("alias/a", "AlreadyExistsException"),
        ("alias/aws/x", "NotAuthorizedException"),
        ("b", "ValidationException"),
    ):
        with refused(code):
            kms.create_alias(AliasName=name, TargetKeyId=key)
    with refused("NotFoundException"):
        kms.create_alias(AliasName="alias/b", TargetKeyId="4a58c8a8-32c2-4a3d-8e20-6a4f1d8f3f00")
    kms.delete_alias(AliasName="alias/a")
    kms.enable_key_rotation(KeyId=key, RotationPeriodInDays=180)
    assert kms.get_key_rotation_status(KeyId=key)["RotationPeriodInDays"] == 180
    kms.disable_key_rotation(KeyId=key)
    assert not kms.get_key_rotation_status(KeyId=key)["KeyRotationEnabled"]
    for days in (6, 31):
        with refused("ValidationException"):
            kms.schedule_key_deletion(KeyId=key, PendingWindowInDays=days)
    kms.schedule_key_deletion(KeyId=key, PendingWindowInDays=7)
    assert key in census()["kms.keys_pending"]
    assert key not in census().get("kms.keys", [])
    for call in (kms.schedule_key_deletion, kms.enable_key_rotation, kms.disable_key):
        with refused("KMSInvalidStateException"):
            call(KeyId=key)
    with refused("KMSInvalidStateException"):
        kms.create_alias(AliasName="alias/b", TargetKeyId=key)


@pytest.mark.usefixtures("unchanged")
def test_log_group_retention_is_one_of_the_allowed_values(aws_client: ClientFactory) -> None:
    logs = aws_client("logs")
    logs.create_log_group(logGroupName="/a/b")
    with refused("ResourceAlreadyExistsException"):
        logs.create_log_group(logGroupName="/a/b")
    logs.put_retention_policy(logGroupName="/a/b", retentionInDays=30)
    for days in (0, 2, 31, 4000):
        with refused("InvalidParameterException"):
            logs.put_retention_policy(logGroupName="/a/b", retentionInDays=days)
    for options in ({"logGroupClass": "GOLD"}, {"kmsKeyId": "arn:aws:kms:us-east-1:123456789012:key/none"}):
        with refused("InvalidParameterException"):
            logs.create_log_group(logGroupName="c", **options)
    arn = "arn:aws:logs:us-east-1:123456789012:log-group:/a/b"
    assert logs.list_tags_for_resource(resourceArn=arn)["tags"] == {}
    logs.delete_log_group(logGroupName="/a/b")
    with refused("ResourceNotFoundException"):
        logs.list_tags_for_resource(resourceArn=arn)
    with refused("ResourceNotFoundException"):
        logs.delete_log_group(logGroupName="/a/b")


def test_a_log_groups_key_can_change(aws_client: ClientFactory, census: Census) -> None:
    logs, kms = aws_client("logs"), aws_client("kms")
    key = kms.create_key()["KeyMetadata"]["Arn"]
    logs.create_log_group(logGroupName="/a/keyed")

    def key_of_the_group() -> str | None:
        return logs.describe_log_groups(logGroupNamePrefix="/a/keyed")["logGroups"][0].get("kmsKeyId")

    logs.associate_kms_key(logGroupName="/a/keyed", kmsKeyId=key)
    assert key_of_the_group() == key
    with refused("InvalidParameterException"):
        logs.associate_kms_key(logGroupName="/a/keyed", kmsKeyId=key[:-12] + "000000000000")
    logs.disassociate_kms_key(logGroupName="/a/keyed")
    assert key_of_the_group() is None
    logs.delete_log_group(logGroupName="/a/keyed")
    with refused("ResourceNotFoundException"):
        logs.associate_kms_key(logGroupName="/a/keyed", kmsKeyId=key)
    assert kms.schedule_key_deletion(KeyId=key)["KeyId"] == key
    assert key.rpartition("/")[2] in census()["kms.keys_pending"]


def control(cloud: Cloud, method: str, body: str = "", query: str = "") -> str:
    """S3 Control, which boto3 would look for under a host's name of its own."""
    scope = "AKIAIOSFODNN7EXAMPLE/20261118/us-east-1/s3/aws4_request"
    request = urllib.request.Request(  # noqa: S310 -- our own loopback
        f"{cloud.url}/v20180820/tags/arn%3Aaws%3As3%3A%3A%3Atagged{query}",
        data=body.encode() or None,
        method=method,
        headers={
            "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
            "x-amz-account-id": "123456789012",
            "Content-Type": "application/xml",
        },
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310 -- as above
        return answer.read().decode()


@pytest.mark.usefixtures("unchanged")
def test_bucket_tags_are_stored(cloud: Cloud, aws_client: ClientFactory) -> None:
    s3 = aws_client("s3")
    s3.create_bucket(Bucket="tagged", CreateBucketConfiguration={"Tags": [{"Key": "a", "Value": "b"}]})
    assert s3.get_bucket_tagging(Bucket="tagged")["TagSet"] == [{"Key": "a", "Value": "b"}]
    assert "<Key>a</Key><Value>b</Value>" in control(cloud, "GET")
    more = "<Tags><Tag><Key>c</Key><Value>d</Value></Tag></Tags>"
    namespace = "http://awss3control.amazonaws.com/doc/2018-08-20/"
    control(cloud, "POST", f'<TagResourceRequest xmlns="{namespace}">{more}</TagResourceRequest>')
    tags: list[Any] = s3.get_bucket_tagging(Bucket="tagged")["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"a": "b", "c": "d"}
    control(cloud, "DELETE", query="?tagKeys=a")
    assert "<Key>a</Key>" not in control(cloud, "GET")
    for name in ("Big", "a", "a..b", "192.0.2.1", "xn--a", "a-s3alias"):
        with refused("InvalidBucketName"):
            s3.create_bucket(Bucket=name)
    about = {"Principal": "*", "Resource": "arn:aws:s3:::tagged/*"}
    s3.put_bucket_policy(Bucket="tagged", Policy=allow(**about))
    for text in ("{}", allow(), allow(**{**about, "Resource": "arn:aws:s3:::other/*"})):
        with refused("MalformedPolicy"):
            s3.put_bucket_policy(Bucket="tagged", Policy=text)
    assert json.loads(s3.get_bucket_policy(Bucket="tagged")["Policy"])["Statement"]
    s3.put_object(Bucket="tagged", Key="k", Body=b"\x1f\x8bnot gzip", ContentEncoding="gzip")
    assert s3.get_object(Bucket="tagged", Key="k")["Body"].read() == b"\x1f\x8bnot gzip"
    with refused("BucketNotEmpty"):
        s3.delete_bucket(Bucket="tagged")
    s3.delete_object(Bucket="tagged", Key="k")
    s3.delete_bucket(Bucket="tagged")


def test_policies_of_aws_are_those_that_moto_has() -> None:
    backend = IAMBackend("aws-cn", "444455556666")
    expected = [
        AWSManagedPolicy.from_data(name, backend.account_id, backend.region_name, row)
        for name, row in json.loads(aws_managed_policies_data).items()
    ]
    assert [plain(policy) for policy in backend.aws_managed_policies] == [plain(policy) for policy in expected]
    assert "arn:aws-cn:iam::aws:policy/AdministratorAccess" in backend.managed_policies


def plain(policy: Any) -> dict[str, Any]:
    """Return all values of a policy, except its random id."""
    return {**vars(policy), "id": "", "versions": [vars(version) for version in policy.versions]}


def test_a_request_creates_the_state_of_one_partition_only(aws_client: ClientFactory) -> None:
    aws_client("sts").get_caller_identity()
    aws_client("iam").list_roles()
    assert [list(partitions) for partitions in iam_backends.values()] == [["aws"]] * len(iam_backends)
