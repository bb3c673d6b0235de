"""The layer in front of moto: recognising, checking, saying no, and never a traceback."""

import http.client
import json
import socket
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from agentenv.rehearsal.cloud import cbor
from agentenv.rehearsal.cloud.http import LARGEST_BODY, Connection
from agentenv.rehearsal.cloud.requests import service_model
from agentenv.rehearsal.cloud.rows import ROWS
from agentenv.rehearsal.cloud.server import Cloud
from tests.fast.rehearsal.cloud.calls import refused, trust
from tests.fast.rehearsal.cloud.conftest import ClientFactory

SCOPE = "AKIAIOSFODNN7EXAMPLE/20261118/us-east-1/{}/aws4_request"
SIGNED = f"AWS4-HMAC-SHA256 Credential={SCOPE}, SignedHeaders=host, Signature=0"


class Raw:
    """HTTP without an SDK, on one connection."""

    def __init__(self, url: str) -> None:
        self.connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)

    def __call__(
        self, method: str, path: str, body: bytes = b"", service: str = "", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if service:
            named["Authorization"] = SIGNED.format(service)
        self.connection.request(method, path, body, named)
        answer = self.connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


@pytest.fixture
def raw(cloud: Cloud) -> Raw:
    return Raw(cloud.url)


def page(cloud: Cloud, name: str) -> Any:
    return json.load(urllib.request.urlopen(f"{cloud.url}/_cloud/{name}"))  # noqa: S310 -- our own loopback


UNKNOWN = {
    "json": ("dynamodb", {"X_Amz_Target": "DynamoDB_20120810.Nonsense"}, b"{}", "/", 400, "UnknownOperationException"),
    "query": (
        "iam",
        {"Content_Type": "application/x-www-form-urlencoded"},
        b"Action=Nonsense&Version=2010-05-08",
        "/",
        400,
        "InvalidAction",
    ),
    "ec2": (
        "ec2",
        {"Content_Type": "application/x-www-form-urlencoded"},
        b"Action=Nonsense&Version=2016-11-15",
        "/",
        400,
        "InvalidAction",
    ),
    "rest-json": ("eks", {}, b"{}", "/nonsense/nothing", 404, "UnknownOperationException"),
    "rest-xml": ("route53", {}, b"", "/nonsense/nothing", 405, "MethodNotAllowed"),
    "cbor": (
        "monitoring",
        {"Smithy_Protocol": "rpc-v2-cbor"},
        b"\xa0",
        "/service/GraniteServiceVersion20100801/operation/Nonsense",
        404,
        "UnknownOperationException",
    ),
    "no such service": ("nonsense", {}, b"{}", "/", 404, "UnknownOperationException"),
}


@pytest.mark.parametrize("protocol", UNKNOWN)
def test_unknown_operation_is_refused_in_its_protocol(raw: Raw, cloud: Cloud, protocol: str) -> None:
    service, headers, body, path, status, code = UNKNOWN[protocol]
    answered = raw("POST", path, body, service, **headers)
    assert answered[0] == status
    assert code.encode() in answered[2]
    assert any("onsense" in name for name in page(cloud, "unknown"))


def test_an_operation_that_moto_lacks_is_unknown_and_not_a_failure(aws_client: ClientFactory, cloud: Cloud) -> None:
    with refused("UnknownOperationException"):
        aws_client("cloudwatch").put_composite_alarm(AlarmName="a", AlarmRule="TRUE")
    assert "cloudwatch PutCompositeAlarm" in page(cloud, "unknown")


def test_service_that_moto_lacks_is_unknown_and_logs_nothing(
    aws_client: ClientFactory, capfd: pytest.CaptureFixture[str]
) -> None:
    with refused("UnknownOperationException"):
        aws_client("freetier").get_free_tier_usage()
    assert capfd.readouterr() == ("", "")


UNREADABLE = {
    "json": ("logs", b"{", {"X_Amz_Target": "Logs_20140328.CreateLogGroup"}, "/", b"SerializationException"),
    "json of another type": (
        "logs",
        b'{"logGroupName": 3}',
        {"X_Amz_Target": "Logs_20140328.CreateLogGroup"},
        "/",
        b"SerializationException",
    ),
    "json list": ("logs", b"[]", {"X_Amz_Target": "Logs_20140328.CreateLogGroup"}, "/", b"SerializationException"),
    "cbor": (
        "monitoring",
        b"\xff\x00",
        {"Smithy_Protocol": "rpc-v2-cbor"},
        "/service/GraniteServiceVersion20100801/operation/PutDashboard",
        b"SerializationException",
    ),
    "number": (
        "sts",
        b"Action=AssumeRole&Version=2011-06-15&DurationSeconds=soon",
        {"Content_Type": "application/x-www-form-urlencoded"},
        "/",
        b"MalformedQueryString",
    ),
    "not gzip": (
        "logs",
        b"{}",
        {"X_Amz_Target": "Logs_20140328.CreateLogGroup", "Content_Encoding": "gzip"},
        "/",
        b"SerializationException",
    ),
}


@pytest.mark.parametrize("body", UNREADABLE)
def test_a_body_that_cannot_be_read_is_refused(raw: Raw, body: str) -> None:
    service, sent, headers, path, code = UNREADABLE[body]
    status, _, answered = raw("POST", path, sent, service, **headers)
    assert status == 400
    assert code in answered


@pytest.mark.parametrize("path", ["/", "/favicon.ico", "/moto-api/reset", "/nothing/here"])
def test_unsigned_request_is_refused(raw: Raw, path: str) -> None:
    status, _, answered = raw("GET", path)
    assert status in {403, 404}
    assert b"Traceback" not in answered


def test_oversized_body_is_refused_unread(cloud: Cloud) -> None:
    connection = http.client.HTTPConnection(cloud.url.removeprefix("http://"), timeout=30)
    connection.putrequest("PUT", "/bucket/key")
    connection.putheader("Content-Length", str(LARGEST_BODY + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413


def test_chunked_bodies_are_joined(cloud: Cloud, aws_client: ClientFactory) -> None:
    connection = http.client.HTTPConnection(cloud.url.removeprefix("http://"), timeout=30)
    for _ in range(2):
        headers = {"Authorization": SIGNED.format("logs"), "X-Amz-Target": "Logs_20140328.CreateLogGroup"}
        connection.request("POST", "/", iter([b'{"logGroupName":', b'"in-pieces"}']), headers, encode_chunked=True)
        answer = connection.getresponse()
        assert (answer.status, b"AlreadyExists" in answer.read()) in {(200, False), (400, True)}
    aws_client("logs").delete_log_group(logGroupName="in-pieces")


@pytest.mark.parametrize("length", ["-1", "some"])
def test_invalid_content_length_is_refused(cloud: Cloud, length: str) -> None:
    connection = http.client.HTTPConnection(cloud.url.removeprefix("http://"), timeout=30)
    connection.putrequest("PUT", "/bucket/key")
    connection.putheader("Content-Length", length)
    connection.endheaders()
    assert connection.getresponse().status == 400


def test_internal_error_has_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cloud: Cloud, raw: Raw
) -> None:
    def fail(_: object) -> dict[str, Any]:
        raise RuntimeError("the fault itself")

    row = ROWS["eks", "ListAccessPolicies"]
    monkeypatch.setitem(ROWS, ("eks", "ListAccessPolicies"), type(row)(row.service, row.operation, fail))
    log = tmp_path / "log"
    with Cloud.start(log=log) as other:
        status, _, answered = Raw(other.url)("GET", "/access-policies", b"", "eks")
    assert status == 500
    assert b"eks ListAccessPolicies" in answered
    assert b"the fault itself" not in answered
    assert "the fault itself" in log.read_text()


def test_connection_is_reused_for_many_calls(raw: Raw) -> None:
    for _ in range(3):
        assert raw("GET", "/_cloud/health")[0] == 200
    assert raw("HEAD", "/no-such-bucket", b"", "s3")[0] == 404
    assert raw("GET", "/_cloud/health")[2] == b'{"status": "ok"}\n'


def test_an_idle_connection_is_closed_and_logs_nothing(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Connection, "timeout", 0.05)
    host, _, port = cloud.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as idle:
        assert idle.recv(1) == b""
    assert caplog.records == []


def test_endpoint_is_a_proxy_to_itself(raw: Raw, aws_client: ClientFactory) -> None:
    """S3 Control puts the account before the host's name, which then can only be reached through a proxy."""
    aws_client("s3").create_bucket(
        Bucket="through-a-proxy", CreateBucketConfiguration={"Tags": [{"Key": "a", "Value": "b"}]}
    )
    path = "http://123456789012.127.0.0.1:9/v20180820/tags/arn%3Aaws%3As3%3A%3A%3Athrough-a-proxy"
    status, _, answered = raw("GET", path, b"", "s3", x_amz_account_id="123456789012")
    assert status == 200
    assert b"<Key>a</Key>" in answered


def test_calls_are_recorded_in_order(cloud: Cloud, aws_client: ClientFactory) -> None:
    since = len(page(cloud, "calls"))
    aws_client("sts").get_caller_identity()
    with refused("NoSuchEntity"):
        aws_client("iam").get_role(RoleName="nobody")
    assert page(cloud, f"calls?since={since}") == [
        {"service": "sts", "operation": "GetCallerIdentity", "status": 200},
        {"service": "iam", "operation": "GetRole", "status": 404},
    ]


def test_cbor_is_read_and_written(raw: Raw) -> None:
    model = service_model("cloudwatch")

    def call(operation: str, **parameters: Any) -> tuple[int, dict[str, str], bytes]:
        body = cbor.write(parameters, model.operation_model(operation).input_shape)
        path = f"/service/GraniteServiceVersion20100801/operation/{operation}"
        return raw("POST", path, body, "monitoring", Smithy_Protocol="rpc-v2-cbor", Content_Type="application/cbor")

    text = json.dumps({"widgets": []})
    assert call("PutDashboard", DashboardName="cbor", DashboardBody=text)[0] == 200
    status, headers, body = call("GetDashboard", DashboardName="cbor")
    assert (status, headers["content-type"]) == (200, "application/cbor")
    shown = cbor.read(body, model.operation_model("GetDashboard").output_shape)
    assert shown["DashboardBody"] == text
    status, headers, body = call("GetDashboard", DashboardName="nothing")
    assert status == 404
    assert headers["x-amzn-query-error"].startswith("ResourceNotFound;Sender")
    status, _, body = call("PutDashboard", DashboardName="cbor")
    assert status == 400
    assert b"dashboardBody" in body


def test_concurrent_callers_get_their_own_responses(cloud: Cloud, aws_client: ClientFactory) -> None:
    iam, faults = aws_client("iam"), []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                name = f"caller-{number}-{turn}"
                assert iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust())["Role"]["RoleName"] == name
                iam.delete_role(RoleName=name)
        except Exception as error:  # noqa: BLE001 -- carried to the thread that asserts
            faults.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert faults == []


def test_long_poll_delays_no_other_request(cloud: Cloud, aws_client: ClientFactory) -> None:
    sqs = aws_client("sqs")
    queue = sqs.create_queue(QueueName="patience")["QueueUrl"]
    waiter = threading.Thread(target=sqs.receive_message, kwargs={"QueueUrl": queue, "WaitTimeSeconds": 2})
    waiter.start()
    assert aws_client("sts").get_caller_identity()["Account"] == "123456789012"
    assert waiter.is_alive()
    waiter.join()
