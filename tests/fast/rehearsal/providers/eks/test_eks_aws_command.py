"""`aws eks get-token` of the stand-in: the same token as the AWS CLI's, and words for everything else."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from agentenv.rehearsal.cloud.server import Cloud
from agentenv.rehearsal.controlplane.auth import eks_token as receiving
from agentenv.rehearsal.providers.eks.aws_command import main
from agentenv.rehearsal.providers.eks.kubeconfig import kubeconfig

# As AWS's documentation has them
KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "AWS_PROFILE",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_STS",
        "AWS_SESSION_TOKEN",
        "KUBERNETES_EXEC_INFO",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def arguments(cluster: str, **more: str) -> list[str]:
    """The arguments in the kubeconfig that the component hands out."""
    created = kubeconfig(cluster=cluster, endpoint="https://127.0.0.1", authority="QUJD", region="us-east-1", **more)
    return created["users"][0]["user"]["exec"]["args"]


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    return json.loads(capsys.readouterr().out)


def token_in(answer: dict[str, object]) -> str:
    status = answer["status"]
    assert isinstance(status, dict)
    return status["token"]


def test_token_admits_its_signer_to_that_cluster_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments("seats")) == 0
    presented = receiving.read(token_in(printed(capsys)), datetime.now(UTC))
    assert presented.access_key == KEY
    assert presented.host == "sts.us-east-1.amazonaws.com"
    assert presented.signed_for("seats", SECRET)
    assert not presented.signed_for("others", SECRET)
    assert not presented.signed_for("seats", "another key")


def test_simulated_cloud_replaces_sts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    assert main(arguments("seats")) == 0
    presented = receiving.read(token_in(printed(capsys)), datetime.now(UTC), also_from="127.0.0.1:4566")
    assert presented.signed_for("seats", SECRET)


def test_response_is_an_expiring_credential(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_EXEC_INFO", '{"apiVersion": "client.authentication.k8s.io/v1"}')
    assert main(["eks", "get-token", "--cluster-name", "seats", "--region", "eu-west-1"]) == 0
    answer = printed(capsys)
    assert (answer["kind"], answer["apiVersion"]) == ("ExecCredential", "client.authentication.k8s.io/v1")
    assert isinstance(answer["status"], dict)
    until = datetime.fromisoformat(answer["status"]["expirationTimestamp"])
    assert timedelta(minutes=13) < until - datetime.now(UTC) <= timedelta(minutes=14)


def test_a_profile_signs_with_its_own_keys(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    (tmp_path / "credentials").write_text("[ann]\naws_access_key_id = AKIAANN\naws_secret_access_key = hers\n")
    assert main(arguments("seats", profile="ann")) == 0
    address = token_in(printed(capsys)).removeprefix("k8s-aws-v1.")
    query = parse_qs(urlsplit(base64.urlsafe_b64decode(address + "=" * (-len(address) % 4)).decode()).query)
    assert query["X-Amz-Credential"][0].startswith("AKIAANN/")
    assert query["X-Amz-Expires"] == ["60"]


def test_missing_credentials_are_reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert main(arguments("seats")) == 255
    out, err = capsys.readouterr()
    assert not out
    assert "credentials" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "requests",
    [
        ["s3", "ls"],
        ["eks", "list-clusters"],
        ["eks", "get-token"],
        ["eks", "get-token", "--cluster-id", "1"],
        ["eks", "get-token", "--cluster-name", "seats", "--output", "text"],
        [],
    ],
    ids=" ".join,
)
def test_other_commands_are_refused_with_a_message(requests: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(requests)
    assert refused.value.code == 252
    assert "Install the AWS CLI for everything else" in capsys.readouterr().err


def test_version_is_accepted_by_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    first = capsys.readouterr().out.split()[0]
    assert tuple(map(int, first.removeprefix("aws-cli/").split("."))) >= (2, 7, 0)


def test_role_is_assumed_first(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Cloud.start() as cloud:
        monkeypatch.setenv("AWS_ENDPOINT_URL", cloud.url)
        assert main(arguments("seats", role="arn:aws:iam::123456789012:role/deployer")) == 0
        host = cloud.url.removeprefix("http://")
    presented = receiving.read(token_in(printed(capsys)), datetime.now(UTC), also_from=host)
    assert presented.access_key.startswith("ASIA")
