"""The exchange: what STS is asked for, what each kind of caller gets, and what SDKs make of the answers."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient
from moto import mock_aws

from agentenv.config import read
from agentenv.core.classes.plan import plans
from agentenv.core.classes.pods.aws_identity import variables
from agentenv.core.classes.pods.pod import pod_spec
from agentenv.core.iam.identity_exchange import (
    AUDIENCE,
    CLASS_TAG,
    MOST_CHARACTERS,
    USER_TAG,
    WORKSPACE_TAG,
    ExchangeError,
    Holder,
    SecretsPlace,
    request,
    seconds,
)
from agentenv.service.aws import clients as aws
from agentenv.service.credentials import routes
from agentenv.service.credentials.exchange import BURST, Allowance, ClassRole, Exchange
from agentenv.service.credentials.token_bearer import RefusedExchangeError
from agentenv.service.credentials.vault import Vault
from agentenv.service.http import responses as answers
from agentenv.service.kube.client import CLAIMS, PODS, SANDBOXES, Document, KubeClient
from tests.fast.service.fake_api_server import Api, FakeApiServer, run
from tests.fast.service.ledger import documents

ROLE = "arn:aws:iam::123456789012:role/class-standard"
POLICY = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"
PLACE = SecretsPlace("arn:aws:secretsmanager:us-east-1:123456789012:secret:", "sandbox-secrets/dev")
ADDRESS = "10.40.1.7"
NOW = datetime(2026, 11, 17, 15, tzinfo=UTC)
HOLDER = Holder("u-1", "standard", "w-1")


class Says:
    """An API server that says one thing of every token."""

    def __init__(self, **changes: Any) -> None:
        self.status: Document = {
            "authenticated": True,
            "audiences": [AUDIENCE],
            "user": {
                "username": f"system:serviceaccount:{documents.SPACE}:sandbox",
                "extra": {
                    "authentication.kubernetes.io/pod-name": ["box-w-1"],
                    "authentication.kubernetes.io/pod-uid": ["pod-w-1"],
                },
            },
            **changes,
        }

    async def review(self, token: str, audience: str) -> Document:
        assert audience == AUDIENCE
        return self.status if token == "the-token" else {"authenticated": False, "error": "no such token"}


class Sts:
    """STS that gives, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def assume_role(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        until = datetime.now(UTC) + timedelta(seconds=asked["DurationSeconds"])
        keys = {"AccessKeyId": "ASIAQQQQQQQQQQQQQQQQ", "SecretAccessKey": "s3cr3t", "SessionToken": "t0k3n"}
        arn = f"arn:aws:sts::123456789012:assumed-role/class-standard/{asked['RoleSessionName']}"
        return {"Credentials": {**keys, "Expiration": until}, "AssumedRoleUser": {"Arn": arn, "AssumedRoleId": "A:b"}}


@pytest.fixture
def api() -> FakeApiServer:
    made = FakeApiServer()
    documents.claim(made)
    return made


def exchange(api: FakeApiServer, reviewer: Says | None = None, sts: Any = None, **more: Any) -> Exchange:
    roles = {"standard": ClassRole(ROLE, (POLICY,))}
    more.setdefault("clock", lambda: NOW)
    cluster = Api(api) if isinstance(api, FakeApiServer) else api
    return Exchange(cluster, reviewer or Says(), sts or Sts(), roles, PLACE, **more)


def why(of: Exchange, token: str = "the-token", address: str = ADDRESS) -> str:  # noqa: S107 - it is none
    try:
        run(of.credentials, token, address)
    except RefusedExchangeError as refusal:
        return refusal.why
    return ""


# -- what is asked of STS ----------------------------------------------------------------------------------------------


def test_a_session_is_tagged_and_no_wider_than_its_class() -> None:
    asked = request(ROLE, HOLDER, [POLICY], PLACE, 3600)
    assert {tag["Key"]: tag["Value"] for tag in asked["Tags"]} == {
        USER_TAG: "u-1",
        CLASS_TAG: "standard",
        WORKSPACE_TAG: "w-1",
    }
    assert asked["PolicyArns"] == [{"arn": POLICY}]
    (statement,) = json.loads(asked["Policy"])["Statement"]
    assert statement["Resource"] == f"{PLACE.arn_prefix}sandbox-secrets/dev/u-1/*"
    assert statement["Action"] == "secretsmanager:GetSecretValue"
    # Never without any policy: such a session may do all that its role may.
    (nothing,) = json.loads(request(ROLE, HOLDER, [], None, 3600)["Policy"])["Statement"]
    assert nothing["Effect"] == "Deny"


@pytest.mark.parametrize(
    ("holder", "policies"),
    [
        (Holder("u-1*", "standard", "w-1"), []),
        (Holder("u/1", "standard", "w-1"), []),
        (Holder("../u-2", "standard", "w-1"), []),
        (Holder("", "standard", "w-1"), []),
        (Holder("u-1", "standard", "w 1"), []),
        (Holder("u-1", "standard", "w"), []),
        (Holder("u-1", "standard", "w-1"), [POLICY] * 11),
    ],
)
def test_what_sts_would_refuse_or_a_policy_misread_is_not_asked_for(holder: Holder, policies: list[str]) -> None:
    with pytest.raises(ExchangeError):
        request(ROLE, holder, policies, PLACE, 3600)


def test_the_longest_names_there_are_fit() -> None:
    place = SecretsPlace(PLACE.arn_prefix, f"sandbox-secrets/{'e' * 40}")
    asked = request(ROLE, Holder("u" * 63, "c" * 63, "w" * 63), [POLICY] * 10, place, 900)
    assert len(asked["Policy"]) < MOST_CHARACTERS / 4


def test_a_session_lasts_no_longer_than_its_workspace_as_far_as_sts_can() -> None:
    assert seconds(NOW, None) == 3600
    assert seconds(NOW, NOW + timedelta(minutes=30)) == 1800
    assert seconds(NOW, NOW + timedelta(minutes=1)) == 900
    assert seconds(NOW, NOW + timedelta(days=1)) == 3600


# -- who gets something ------------------------------------------------------------------------------------------------


def test_a_claimed_sandbox_gets_its_owners_session(api: FakeApiServer) -> None:
    sts = Sts()
    given = run(exchange(api, sts=sts).credentials, "the-token", ADDRESS)
    assert given.session.endswith("/w-1")
    assert sts.asked[0]["RoleArn"] == ROLE
    assert "s3cr3t" not in repr(given)
    assert "t0k3n" not in repr(given)
    # A socket for both kinds of address writes it so.
    assert why(exchange(api), address=f"::ffff:{ADDRESS}") == ""


@pytest.mark.parametrize(
    ("reviewer", "expected"),
    [
        (Says(authenticated=False), "token"),
        (Says(audiences=[]), "audience"),
        (Says(audiences=["https://kubernetes.default.svc"]), "audience"),
        (Says(error="token has expired"), "token"),
        (Says(user={"username": "system:serviceaccount:sandbox-standard:default"}), "account"),
        (Says(user={"username": "system:serviceaccount:kube-system:sandbox"}), "account"),
        (Says(user={"username": "sandbox-standard:sandbox"}), "account"),
        (Says(user={"username": "system:serviceaccount:sandbox-standard:sandbox", "extra": {}}), "unbound"),
    ],
)
def test_what_the_api_server_says_is_all_that_counts(api: FakeApiServer, reviewer: Says, expected: str) -> None:
    assert why(exchange(api, reviewer)) == expected


def test_a_token_that_nobody_knows_or_that_is_none(api: FakeApiServer) -> None:
    assert why(exchange(api), "another") == "token"
    assert why(exchange(api), "") == "no-token"
    assert why(exchange(api), "x" * 9000) == "no-token"
    assert why(exchange(api), "tökén") == "no-token"


@pytest.mark.parametrize("address", ["10.40.1.8", "", "127.0.0.1", "box-w-1", "10.40.1.70"])
def test_from_another_address_a_token_is_worth_nothing(api: FakeApiServer, address: str) -> None:
    assert why(exchange(api), address=address) == "address"


def changed(api: FakeApiServer, kind: Any, name: str, path: tuple[str, ...], value: Any) -> None:
    document = deepcopy(api.objects[kind, documents.SPACE, name])
    inside = document
    for part in path[:-1]:
        inside = inside.setdefault(part, {})
    inside[path[-1]] = value
    api.objects[kind, documents.SPACE, name] = document


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ((PODS, "box-w-1", ("metadata", "uid"), "another"), "pod"),
        ((PODS, "box-w-1", ("metadata", "deletionTimestamp"), "2026-11-17T15:00:00Z"), "pod"),
        ((PODS, "box-w-1", ("status", "phase"), "Succeeded"), "pod"),
        ((PODS, "box-w-1", ("spec", "hostNetwork"), True), "address"),
        ((PODS, "box-w-1", ("metadata", "ownerReferences"), []), "sandbox"),
        ((PODS, "box-w-1", ("metadata", "labels", "sandbox.users.io/user"), "u-2"), "owner"),
        ((SANDBOXES, "box-w-1", ("metadata", "uid"), "another"), "sandbox"),
        ((SANDBOXES, "box-w-1", ("metadata", "ownerReferences"), []), "unclaimed"),
        ((SANDBOXES, "box-w-1", ("spec", "operatingMode"), "Suspended"), "ended"),
        ((CLAIMS, "w-1", ("metadata", "uid"), "another"), "unclaimed"),
        ((CLAIMS, "w-1", ("metadata", "deletionTimestamp"), "2026-11-17T15:00:00Z"), "ended"),
        ((CLAIMS, "w-1", ("status", "sandbox", "name"), "another"), "sandbox"),
        ((CLAIMS, "w-1", ("spec", "lifecycle"), {"shutdownTime": "2026-11-17T14:59:59Z"}), "ended"),
        ((CLAIMS, "w-1", ("spec", "additionalPodMetadata"), {"labels": {}}), "owner"),
    ],
)
def test_what_the_cluster_says_now_decides(change: tuple[Any, str, tuple[str, ...], Any], expected: str) -> None:
    api = FakeApiServer()
    documents.claim(api)
    changed(api, *change)
    assert why(exchange(api)) == expected


def test_a_class_without_a_role_gives_none(api: FakeApiServer) -> None:
    assert why(Exchange(Api(api), Says(), Sts(), {"other": ClassRole(ROLE)}, PLACE)) == "class"


def test_who_asks_too_often_waits(api: FakeApiServer) -> None:
    now = [0.0]
    ours = exchange(api, allowance=Allowance(lambda: now[0]))
    assert [why(ours) for _ in range(BURST + 1)] == [""] * BURST + ["too-many"]
    assert why(ours, address="10.40.1.9") == "address"
    now[0] = 31.0
    assert [why(ours), why(ours)] == ["", "too-many"]


def test_what_sts_refuses_is_refused_and_its_trouble_is_not(api: FakeApiServer) -> None:
    class Refusing:
        code = "PackedPolicyTooLarge"

        def assume_role(self, **_: Any) -> Any:
            from botocore.exceptions import ClientError

            said: Any = {"Error": {"Code": self.code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
            raise ClientError(said, "AssumeRole")

    refusing = Refusing()
    assert why(exchange(api, sts=refusing)) == "sts"
    refusing.code = "Throttling"
    with pytest.raises(aws.AwsUnavailableError):
        run(exchange(api, sts=refusing).credentials, "the-token", ADDRESS)


def test_the_audit_says_who_and_never_what(api: FakeApiServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "service.audit")
    run(exchange(api).credentials, "the-token", ADDRESS)
    why(exchange(api), address="10.40.1.8")
    given, refused = (record for record in caplog.records if record.name == "service.audit")
    assert (given.getMessage(), refused.getMessage()) == ("identity given", "identity refused")
    facts: Any = given.__dict__["facts"]
    assert (facts["owner"], facts["workspace"], facts["source"]) == ("u-1", "w-1", ADDRESS)
    told = repr(given.__dict__) + repr(refused.__dict__)
    assert not [secret for secret in ("s3cr3t", "t0k3n", "the-token", "ASIAQ") if secret in told]


# -- over HTTP ---------------------------------------------------------------------------------------------------------


class Parts:
    def __init__(self, ours: Exchange | None) -> None:
        self.exchange = ours


def application(ours: Exchange | None) -> FastAPI:
    app = FastAPI()
    answers.install_handlers(app)
    app.include_router(routes.router)
    app.state.dependencies = Parts(ours)
    return app


def test_credentials_as_containers_have_them(api: FakeApiServer) -> None:
    client = TestClient(application(exchange(api)), client=(ADDRESS, 4000))
    for method in ("GET", "POST"):
        answer = client.request(method, "/v1/identity/credentials", headers={"Authorization": "the-token"})
        assert answer.status_code == 200
        assert answer.json().keys() == {"AccessKeyId", "SecretAccessKey", "Token", "Expiration", "RoleArn"}
        assert answer.headers["cache-control"] == "no-store"
    # Whoever says where they come from is not believed.
    lying = {"Authorization": "the-token", "X-Forwarded-For": ADDRESS, "Forwarded": f"for={ADDRESS}"}
    other = TestClient(application(exchange(api)), client=("10.40.1.8", 4000))
    answer = other.get("/v1/identity/credentials", headers=lying)
    assert (answer.status_code, answer.json()["code"]) == (403, "AccessDenied")
    # It is told no more than whoever brings a token that is none.
    assert answer.json() == client.get("/v1/identity/credentials", headers={"Authorization": "another"}).json()
    assert client.get("/v1/identity/credentials").status_code == 401
    nobody = TestClient(application(None), client=(ADDRESS, 4000))
    assert nobody.get("/v1/identity/credentials", headers=lying).status_code == 403


def test_while_the_cluster_is_away_whoever_asks_is_told_to_ask_again(api: FakeApiServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{nobody.getsockname()[1]}"}}],
            "users": [{"name": "a", "user": {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "current-context": "a",
        }
    for reviews in (True, False):
        gone: Any = KubeClient.from_kubeconfig_document(config)
        ours = exchange(api, gone) if reviews else exchange(gone)
        with TestClient(application(ours), client=(ADDRESS, 4000), raise_server_exceptions=False) as client:
            answer = client.get("/v1/identity/credentials", headers={"Authorization": "the-token"})
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
            asked = {"Action": "AssumeRoleWithWebIdentity", "WebIdentityToken": "the-token"}
            answer = client.post("/v1/identity/sts", data=asked)
            assert (answer.status_code, "<Code>Throttling</Code>" in answer.text) == (503, True)
            assert client.portal is not None
            client.portal.call(gone.close)


def test_other_actions_of_sts_are_told_where_to_go(api: FakeApiServer) -> None:
    client = TestClient(application(exchange(api)), client=(ADDRESS, 4000))
    answer = client.post("/v1/identity/sts", data={"Action": "GetCallerIdentity"})
    assert (answer.status_code, "InvalidAction" in answer.text) == (400, True)
    asked = {"Action": "AssumeRoleWithWebIdentity", "WebIdentityToken": "another"}
    answer = client.post("/v1/identity/sts/", data=asked)
    assert (answer.status_code, "<Code>AccessDenied</Code>" in answer.text) == (403, True)
    assert client.post("/v1/identity/sts", content=b"x" * 20_000).status_code == 422
    assert client.post("/v1/identity/sts", content=b"\xff\xfe").status_code == 400


@pytest.fixture
def served(api: FakeApiServer) -> Iterator[str]:
    """The exchange behind a real socket, for a pod whose address is this machine's own."""
    changed(api, PODS, "box-w-1", ("status", "podIPs"), [{"ip": "127.0.0.1"}])
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application(exchange(api)), log_config=None, proxy_headers=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    listening.close()


def test_an_sdk_needs_no_code_for_it(served: str, tmp_path: Any) -> None:
    """The surroundings that a class's template gives its pods, in a process with AWS's own SDK."""
    said = {"name": "standard", "image": f"registry.example.com/a@sha256:{'0' * 64}", "identity": {"kind": "exchange"}}
    config = {
        "aws:region": "us-east-1",
        "agent-environment:sandboxClasses": [{**said, "capabilities": ["dns", "identity"]}],
    }
    (plan,) = plans(read(config, "dev"))
    given = variables(plan)
    container = pod_spec(plan, said["image"])["containers"][0]
    assert given.items() <= {one["name"]: one["value"] for one in container["env"]}.items()
    folder = next(one["mountPath"] for one in container["volumeMounts"] if one["name"] == "identity")
    assert given["AWS_WEB_IDENTITY_TOKEN_FILE"] == f"{folder}/token"
    (tmp_path / "token").write_text("the-token")
    around = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    ours = {**given, "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token")}
    ours["AWS_ENDPOINT_URL_STS"] = given["AWS_ENDPOINT_URL_STS"].replace(
        given["SANDBOX_IDENTITY_URL"], f"{served}/v1/identity"
    )
    program = (
        "import boto3; session = boto3.session.Session(region_name='us-east-1');"
        "found = session.get_credentials().get_frozen_credentials();"
        "print(found.access_key, found.secret_key, found.token)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**around, **ours}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["ASIAQQQQQQQQQQQQQQQQ", "s3cr3t", "t0k3n"], done.stderr


# -- secrets -----------------------------------------------------------------------------------------------------------


def test_secrets_are_their_owners(monkeypatch: pytest.MonkeyPatch, api: FakeApiServer) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        client = aws.client("secretsmanager", "us-east-1")
        vault = Vault(client, PLACE, {"environment": "dev"})
        vault.put("u-1", "token", "one")
        vault.put("u-10", "token", "ten")
        vault.put("u-1", "token", "two")
        assert [(one.name, one.reference) for one in vault.all("u-1")] == [("token", "sandbox-secrets/dev/u-1/token")]
        ours = exchange(api, vault=lambda _: client)
        assert run(ours.secret, "the-token", ADDRESS, "token") == "two"
        for name in ("other", "../u-10/token", "u-10/token", "*"):
            with pytest.raises(RefusedExchangeError) as refusal:
                run(ours.secret, "the-token", ADDRESS, name)
            assert refusal.value.why == "secret"
        assert vault.delete("u-1", "token")
        assert not vault.delete("u-1", "nothing")
        assert vault.all("u-1") == []
        vault.put("u-1", "token", "three")
        assert run(ours.secret, "the-token", ADDRESS, "token") == "three"
