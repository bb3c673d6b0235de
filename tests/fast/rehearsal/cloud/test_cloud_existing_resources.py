"""What a stack names by its ARN exists in the simulated account before the stack is created."""

from __future__ import annotations

import json
import urllib.request
from urllib.error import HTTPError

import pytest

from agentenv.rehearsal.cloud.server import Cloud
from tests.fast.rehearsal.cloud.conftest import ClientFactory

ACCOUNT = "123456789012"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/3f6c1d2a-7b4e-4c58-9a10-5d2e8f7b6c41"
POLICY = f"arn:aws:iam::{ACCOUNT}:policy/teams/read-artifacts"
MONITOR = f"arn:aws:ce::{ACCOUNT}:anomalymonitor/9a2b7c64-1d3e-4f58-8a60-2c5d7e9f1b30"


def post(cloud: Cloud, body: object) -> None:
    request = urllib.request.Request(f"{cloud.url}/_cloud/existing", json.dumps(body).encode(), method="POST")  # noqa: S310 - our own loopback
    urllib.request.urlopen(request)  # noqa: S310 - our own loopback


def test_what_exists_has_the_arn_that_it_was_named_by(cloud: Cloud, aws_client: ClientFactory) -> None:
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


@pytest.mark.parametrize("body", [{}, ["arn:aws:s3:::bucket"], [1]])
def test_what_cannot_exist_beforehand_is_refused(cloud: Cloud, body: object) -> None:
    with pytest.raises(HTTPError, match="400"):
        post(cloud, body)
