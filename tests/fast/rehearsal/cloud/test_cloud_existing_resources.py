"""Resources that a stack names by ARN exist in the simulated account before the stack is created."""

from __future__ import annotations

import json
import urllib.request
from urllib.error import HTTPError

import pytest

from agentenv.rehearsal.cloud.server import Cloud
from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.nodes.ec2_queries import images_exist
from tests.fast.rehearsal.cloud.conftest import ClientFactory

ACCOUNT = "123456789012"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/3f6c1d2a-7b4e-4c58-9a10-5d2e8f7b6c41"
POLICY = f"arn:aws:iam::{ACCOUNT}:policy/teams/read-artifacts"
MONITOR = f"arn:aws:ce::{ACCOUNT}:anomalymonitor/9a2b7c64-1d3e-4f58-8a60-2c5d7e9f1b30"


def post(cloud: Cloud, body: object) -> None:
    request = urllib.request.Request(f"{cloud.url}/_cloud/existing", json.dumps(body).encode(), method="POST")  # noqa: S310 - our own loopback
    urllib.request.urlopen(request)  # noqa: S310 - our own loopback


def test_existing_resources_have_their_configured_arns(cloud: Cloud, aws_client: ClientFactory) -> None:
    post(cloud, [KEY, POLICY, MONITOR])
    assert aws_client("kms").describe_key(KeyId=KEY)["KeyMetadata"]["Arn"] == KEY
    system = aws_client("efs").create_file_system(CreationToken="existing", Encrypted=True, KmsKeyId=KEY)
    assert system["KmsKeyId"] == KEY
    aws_client("efs").delete_file_system(FileSystemId=system["FileSystemId"])
    assert aws_client("iam").get_policy(PolicyArn=POLICY)["Policy"]["PolicyName"] == "read-artifacts"
    aws_client("iam").delete_policy(PolicyArn=POLICY)
    [monitor] = aws_client("ce").get_anomaly_monitors(MonitorArnList=[MONITOR])["AnomalyMonitors"]
    assert monitor["MonitorArn"] == MONITOR
    aws_client("ce").delete_anomaly_monitor(MonitorArn=MONITOR)
    aws_client("kms").schedule_key_deletion(KeyId=KEY, PendingWindowInDays=7)


def test_resources_that_a_gateway_names_exist(cloud: Cloud, aws_client: ClientFactory) -> None:
    secret = f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:agents/sign-in-a1b2c3"
    certificate = f"arn:aws:acm:us-east-1:{ACCOUNT}:certificate/0f7a3c52-6a0e-4d2e-9b0c-6f3c2a1d9e84"
    zone = "arn:aws:route53:::hostedzone/Z0EXAMPLE0ZONE"
    named = {certificate: ["os.example.com", "*.os.example.com"], zone: ["os.example.com", ACCOUNT], secret: []}
    post(cloud, [{"arn": arn, "names": names} for arn, names in named.items()])
    assert aws_client("secretsmanager").get_secret_value(SecretId=secret)["ARN"] == secret
    issued = aws_client("acm").describe_certificate(CertificateArn=certificate)["Certificate"]
    assert set(issued["SubjectAlternativeNames"]) == {"os.example.com", "*.os.example.com"}
    assert aws_client("route53").get_hosted_zone(Id="Z0EXAMPLE0ZONE")["HostedZone"]["Name"] == "os.example.com."
    aws_client("secretsmanager").delete_secret(SecretId=secret, ForceDeleteWithoutRecovery=True)
    aws_client("acm").delete_certificate(CertificateArn=certificate)
    aws_client("route53").delete_hosted_zone(Id="Z0EXAMPLE0ZONE")


def test_a_node_class_selects_an_image_that_exists(cloud: Cloud, aws_client: ClientFactory) -> None:
    account = Account(cloud.url, "us-east-1", "AKIAIOSFODNN7EXAMPLE", "no secret")
    terms = [{"id": "ami-0a1b2c3d4e5f60718"}]
    assert not images_exist(account, terms)
    assert images_exist(account, [{"alias": "al2023@v20261103"}])
    assert not images_exist(account, [])
    post(cloud, [{"arn": f"arn:aws:ec2:us-east-1:{ACCOUNT}:image/ami-0a1b2c3d4e5f60718", "names": ["arm64"]}])
    assert images_exist(account, terms)
    aws_client("ec2").deregister_image(ImageId="ami-0a1b2c3d4e5f60718")


def test_images_in_ecr_have_their_digests_and_tags(cloud: Cloud, aws_client: ClientFactory) -> None:
    ecr, digests = aws_client("ecr"), [f"sha256:{digit * 64}" for digit in "ab"]
    repository = f"arn:aws:ecr:us-east-1:{ACCOUNT}:repository/team/sandbox"
    post(cloud, [{"arn": f"{repository}@{digests[0]}", "names": ["0.1.0"]}, f"{repository}@{digests[1]}"])
    found = ecr.describe_images(repositoryName="team/sandbox", imageIds=[{"imageDigest": digests[0]}])["imageDetails"]
    assert [row["imageTags"] for row in found] == [["0.1.0"]]
    for digest in digests:
        [image] = ecr.batch_get_image(repositoryName="team/sandbox", imageIds=[{"imageDigest": digest}])["images"]
        platforms = [row["platform"]["architecture"] for row in json.loads(image["imageManifest"])["manifests"]]
        assert platforms == ["amd64", "arm64"]
    ecr.delete_repository(repositoryName="team/sandbox", force=True)


@pytest.mark.parametrize(
    "body", [{}, ["arn:aws:s3:::bucket"], [1], [f"arn:aws:ec2:us-east-1:{ACCOUNT}:image/ami-0a1b2c3d4e5f60718"]]
)
def test_resource_that_cannot_preexist_is_refused(cloud: Cloud, body: object) -> None:
    with pytest.raises(HTTPError, match="400"):
        post(cloud, body)
