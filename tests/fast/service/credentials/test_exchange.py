"""The exchange: its requests to STS, the refusals of each kind of caller, and its responses to SDKs."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

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
from agentenv.core.workspaces.workspace import GRANTS
from agentenv.service.aws import clients as aws
from agentenv.service.credentials import routes
from agentenv.service.credentials.exchange import BURST, Allowance, ClassRole, Exchange
from agentenv.service.credentials.token_bearer import RefusedExchangeError
from agentenv.service.credentials.vault import Vault
from agentenv.service.http import responses
from agentenv.service.kube.client import CLAIMS, PODS, SANDBOXES, Document, KubeClient
from tests.fast.config.stack_samples import ACCESS
from tests.fast.service.fake_api_server import Api, FakeApiServer, run
from tests.fast.service.ledger import documents
from tests.fast.simulated_tables import simulated_aws
from tests.served import in_thread, served

ROLE = "arn:aws:iam::123456789012:role/class-standard"
POLICY = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"
PLACE = SecretsPlace("arn:aws:secretsmanager:us-east-1:123456789012:secret:", "sandbox-secrets/dev")
ADDRESS = "10.40.1.7"
NOW = datetime(2026, 11, 17, 15, tzinfo=UTC)
HOLDER = Holder("u-1", "standard", "w-1")


class FakeReviewer:
    """An API server that gives each token the same review."""

    def __init__(self, **changes: Any) -> None:
        self.status: Document = {
            "authenticated": True,
            "audiences": [AUDIENCE],
            "user": {
                "username": f"system:serviceaccount:{documents.NAMESPACE}:sandbox",
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


class FakeSts:
    """STS that records its requests."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def assume_role(self, **parameters: Any) -> dict[str, Any]:
        self.requests.append(parameters)
        until = datetime.now(UTC) + timedelta(seconds=parameters["DurationSeconds"])
        keys = {"AccessKeyId": "ASIAQQQQQQQQQQQQQQQQ", "SecretAccessKey": "s3cr3t", "SessionToken": "t0k3n"}
        arn = f"arn:aws:sts::123456789012:assumed-role/class-standard/{parameters['RoleSessionName']}"
        return {"Credentials": {**keys, "Expiration": until}, "AssumedRoleUser": {"Arn": arn, "AssumedRoleId": "A:b"}}


@pytest.fixture
def api() -> FakeApiServer:
    server = FakeApiServer()
    documents.claim(server)
    return server


def exchange(api: FakeApiServer, reviewer: FakeReviewer | None = None, sts: Any = None, **more: Any) -> Exchange:
    roles = {"standard": ClassRole(ROLE, (POLICY,))}
    more.setdefault("clock", lambda: NOW)
    cluster = Api(api) if isinstance(api, FakeApiServer) else api
    return Exchange(cluster, reviewer or FakeReviewer(), sts or FakeSts(), roles, PLACE, **more)


def refusal_of(exchange_: Exchange, token: str = "the-token", address: str = ADDRESS) -> str:  # noqa: S107 - not a secret
    try:
        run(exchange_.credentials, token, address)
    except RefusedExchangeError as refusal:
        return refusal.why
    return ""


# -- requests to STS ---------------------------------------------------------------------------------------------------


def test_a_session_is_tagged_and_no_wider_than_its_class() -> None:
    parameters = request(ROLE, HOLDER, [POLICY], PLACE, 3600)
    assert {tag["Key"]: tag["Value"] for tag in parameters["Tags"]} == {
        USER_TAG: "u-1",
        CLASS_TAG: "standard",
        WORKSPACE_TAG: "w-1",
    }
    assert parameters["PolicyArns"] == [{"arn": POLICY}]
    (statement,) = json.loads(parameters["Policy"])["Statement"]
    assert statement["Resource"] == f"{PLACE.arn_prefix}sandbox-secrets/dev/u-1/*"
    assert statement["Action"] == "secretsmanager:GetSecretValue"
    # Never without a session policy: the session would have all permissions of the role.
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
def test_ids_that_a_policy_would_misread_are_refused(holder: Holder, policies: list[str]) -> None:
    with pytest.raises(ExchangeError):
        request(ROLE, holder, policies, PLACE, 3600)


def test_the_longest_names_fit() -> None:
    place = SecretsPlace(PLACE.arn_prefix, f"sandbox-secrets/{'e' * 40}")
    parameters = request(ROLE, Holder("u" * 63, "c" * 63, "w" * 63), [POLICY] * 10, place, 900)
    assert len(parameters["Policy"]) < MOST_CHARACTERS / 4


def test_a_session_lasts_no_longer_than_its_workspace_as_far_as_sts_can() -> None:
    assert seconds(NOW, None) == 3600
    assert seconds(NOW, NOW + timedelta(minutes=30)) == 1800
    assert seconds(NOW, NOW + timedelta(minutes=1)) == 900
    assert seconds(NOW, NOW + timedelta(days=1)) == 3600


# -- callers -----------------------------------------------------------------------------------------------------------


def test_a_claimed_sandbox_gets_its_owners_session(api: FakeApiServer) -> None:
    sts = FakeSts()
    credentials = run(exchange(api, sts=sts).credentials, "the-token", ADDRESS)
    assert credentials.session.endswith("/w-1")
    assert sts.requests[0]["RoleArn"] == ROLE
    assert "s3cr3t" not in repr(credentials)
    assert "t0k3n" not in repr(credentials)
    # A dual-stack socket shows the address so.
    assert refusal_of(exchange(api), address=f"::ffff:{ADDRESS}") == ""


@pytest.mark.parametrize(
    ("reviewer", "expected"),
    [
        (FakeReviewer(authenticated=False), "token"),
        (FakeReviewer(audiences=[]), "audience"),
        (FakeReviewer(audiences=["https://kubernetes.default.svc"]), "audience"),
        (FakeReviewer(error="token has expired"), "token"),
        (FakeReviewer(user={"username": "system:serviceaccount:sandbox-standard:default"}), "account"),
        (FakeReviewer(user={"username": "system:serviceaccount:kube-system:sandbox"}), "account"),
        (FakeReviewer(user={"username": "sandbox-standard:sandbox"}), "account"),
        (FakeReviewer(user={"username": "system:serviceaccount:sandbox-standard:sandbox", "extra": {}}), "unbound"),
    ],
)
def test_tokens_are_judged_by_their_review(api: FakeApiServer, reviewer: FakeReviewer, expected: str) -> None:
    assert refusal_of(exchange(api, reviewer)) == expected


def test_unknown_and_malformed_tokens_are_refused(api: FakeApiServer) -> None:
    assert refusal_of(exchange(api), "another") == "token"
    assert refusal_of(exchange(api), "") == "no-token"
    assert refusal_of(exchange(api), "x" * 9000) == "no-token"
    assert refusal_of(exchange(api), "tökén") == "no-token"


@pytest.mark.parametrize("address", ["10.40.1.8", "", "127.0.0.1", "box-w-1", "10.40.1.70"])
def test_a_token_from_another_address_is_refused(api: FakeApiServer, address: str) -> None:
    assert refusal_of(exchange(api), address=address) == "address"


def change_object(api: FakeApiServer, kind: Any, name: str, path: tuple[str, ...], value: Any) -> None:
    document = deepcopy(api.objects[kind, documents.NAMESPACE, name])
    section = document
    for part in path[:-1]:
        section = section.setdefault(part, {})
    section[path[-1]] = value
    api.objects[kind, documents.NAMESPACE, name] = document


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
        ((CLAIMS, "w-1", ("metadata", "annotations"), {GRANTS: '{"ends":"2026-11-17T14:59:59Z"}'}), "ended"),
        ((CLAIMS, "w-1", ("metadata", "annotations"), {GRANTS: '{"capabilities":["dns"]}'}), "grants"),
        ((CLAIMS, "w-1", ("spec", "additionalPodMetadata"), {"labels": {}}), "owner"),
    ],
)
def test_the_current_objects_decide(change: tuple[Any, str, tuple[str, ...], Any], expected: str) -> None:
    api = FakeApiServer()
    documents.claim(api)
    change_object(api, *change)
    assert refusal_of(exchange(api)) == expected


def test_a_class_without_a_role_is_refused(api: FakeApiServer) -> None:
    assert refusal_of(Exchange(Api(api), FakeReviewer(), FakeSts(), {"other": ClassRole(ROLE)}, PLACE)) == "class"


def test_requests_from_an_address_are_limited(api: FakeApiServer) -> None:
    now = [0.0]
    tested = exchange(api, allowance=Allowance(lambda: now[0]))
    assert [refusal_of(tested) for _ in range(BURST + 1)] == [""] * BURST + ["too-many"]
    assert refusal_of(tested, address="10.40.1.9") == "address"
    # Secrets are counted apart from credentials.
    with pytest.raises(RefusedExchangeError) as refused:
        run(tested.secret, "the-token", ADDRESS, "github")
    assert refused.value.why == "secrets"
    now[0] = 31.0
    assert [refusal_of(tested), refusal_of(tested)] == ["", "too-many"]


def test_a_refusal_of_sts_differs_from_an_outage(api: FakeApiServer) -> None:
    class RefusingSts:
        code = "PackedPolicyTooLarge"

        def assume_role(self, **_: Any) -> Any:
            from botocore.exceptions import ClientError

            response: Any = {"Error": {"Code": self.code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
            raise ClientError(response, "AssumeRole")

    refusing_sts = RefusingSts()
    assert refusal_of(exchange(api, sts=refusing_sts)) == "sts"
    refusing_sts.code = "Throttling"
    with pytest.raises(aws.AwsUnavailableError):
        run(exchange(api, sts=refusing_sts).credentials, "the-token", ADDRESS)


def test_the_audit_log_has_the_caller_and_no_secret(api: FakeApiServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "service.audit")
    run(exchange(api).credentials, "the-token", ADDRESS)
    refusal_of(exchange(api), address="10.40.1.8")
    credentials, refused = (record for record in caplog.records if record.name == "service.audit")
    assert (credentials.getMessage(), refused.getMessage()) == ("identity given", "identity refused")
    facts: Any = credentials.__dict__["facts"]
    assert (facts["owner"], facts["workspace"], facts["source"]) == ("u-1", "w-1", ADDRESS)
    text = repr(credentials.__dict__) + repr(refused.__dict__)
    assert not [secret for secret in ("s3cr3t", "t0k3n", "the-token", "ASIAQ") if secret in text]


# -- over HTTP ---------------------------------------------------------------------------------------------------------


class FakeDependencies:
    def __init__(self, tested: Exchange | None) -> None:
        self.exchange = tested


def application(tested: Exchange | None) -> FastAPI:
    app = FastAPI()
    responses.install_handlers(app)
    app.include_router(routes.router)
    app.state.dependencies = FakeDependencies(tested)
    return app


def test_the_container_credentials_endpoint(api: FakeApiServer) -> None:
    client = TestClient(application(exchange(api)), client=(ADDRESS, 4000))
    for method in ("GET", "POST"):
        response = client.request(method, "/v1/identity/credentials", headers={"Authorization": "the-token"})
        assert response.status_code == 200
        assert response.json().keys() == {"AccessKeyId", "SecretAccessKey", "Token", "Expiration", "RoleArn"}
        assert response.headers["cache-control"] == "no-store"
    # Forwarding headers are ignored.
    forged_headers = {"Authorization": "the-token", "X-Forwarded-For": ADDRESS, "Forwarded": f"for={ADDRESS}"}
    other = TestClient(application(exchange(api)), client=("10.40.1.8", 4000))
    response = other.get("/v1/identity/credentials", headers=forged_headers)
    assert (response.status_code, response.json()["code"]) == (403, "AccessDenied")
    # The response is the same as for an invalid token.
    assert response.json() == client.get("/v1/identity/credentials", headers={"Authorization": "another"}).json()
    assert client.get("/v1/identity/credentials").status_code == 401
    closed_port = TestClient(application(None), client=(ADDRESS, 4000))
    assert closed_port.get("/v1/identity/credentials", headers=forged_headers).status_code == 403


def test_an_unavailable_cluster_gives_a_time_to_retry(api: FakeApiServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_port:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{closed_port.getsockname()[1]}"}}],
            "users": [{"name": "a", "user": {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "current-context": "a",
        }
    for reviews in (True, False):
        unreachable: Any = KubeClient.from_kubeconfig_document(config, attempts=1)
        tested = exchange(api, unreachable) if reviews else exchange(unreachable)
        with TestClient(application(tested), client=(ADDRESS, 4000), raise_server_exceptions=False) as client:
            response = client.get("/v1/identity/credentials", headers={"Authorization": "the-token"})
            assert (response.status_code, response.headers["Retry-After"]) == (503, "2")
            parameters = {"Action": "AssumeRoleWithWebIdentity", "WebIdentityToken": "the-token"}
            response = client.post("/v1/identity/sts", data=parameters)
            assert (response.status_code, "<Code>Throttling</Code>" in response.text) == (503, True)
            assert client.portal is not None
            client.portal.call(unreachable.close)


def test_other_actions_of_sts_are_refused(api: FakeApiServer) -> None:
    client = TestClient(application(exchange(api)), client=(ADDRESS, 4000))
    response = client.post("/v1/identity/sts", data={"Action": "GetCallerIdentity"})
    assert (response.status_code, "InvalidAction" in response.text) == (400, True)
    parameters = {"Action": "AssumeRoleWithWebIdentity", "WebIdentityToken": "another"}
    response = client.post("/v1/identity/sts/", data=parameters)
    assert (response.status_code, "<Code>AccessDenied</Code>" in response.text) == (403, True)
    assert client.post("/v1/identity/sts", content=b"x" * 20_000).status_code == 422
    assert client.post("/v1/identity/sts", content=b"\xff\xfe").status_code == 400


@pytest.fixture
def service_url(api: FakeApiServer) -> Iterator[str]:
    """The exchange behind a real socket, for a pod whose address is this machine's own."""
    change_object(api, PODS, "box-w-1", ("status", "podIPs"), [{"ip": "127.0.0.1"}])
    with in_thread(served(application(exchange(api)), lifespan="off")) as port:
        yield f"http://127.0.0.1:{port}"


def test_an_sdk_gets_credentials_without_code(service_url: str, tmp_path: Any) -> None:
    """A process with an AWS SDK and the environment variables that a class's template sets."""
    sandbox_class = {
        "name": "standard",
        "image": f"registry.example.com/a@sha256:{'0' * 64}",
        "identity": {"kind": "exchange"},
    }
    config = {
        "aws:region": "us-east-1",
        **ACCESS,
        "agent-environment:sandboxClasses": [{**sandbox_class, "capabilities": ["dns", "identity"]}],
    }
    (plan,) = plans(read(config, "dev"))
    class_variables = variables(plan)
    container = pod_spec(plan, sandbox_class["image"])["containers"][0]
    assert class_variables.items() <= {row["name"]: row["value"] for row in container["env"]}.items()
    folder = next(row["mountPath"] for row in container["volumeMounts"] if row["name"] == "identity")
    assert class_variables["AWS_WEB_IDENTITY_TOKEN_FILE"] == f"{folder}/token"
    (tmp_path / "token").write_text("the-token")
    other_variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = {**class_variables, "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token")}
    environment["AWS_ENDPOINT_URL_STS"] = class_variables["AWS_ENDPOINT_URL_STS"].replace(
        class_variables["SANDBOX_IDENTITY_URL"], f"{service_url}/v1/identity"
    )
    program = (
        "import boto3; session = boto3.session.Session(region_name='us-east-1');"
        "found = session.get_credentials().get_frozen_credentials();"
        "print(found.access_key, found.secret_key, found.token)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program],
        env={**other_variables, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert completed.stdout.split() == ["ASIAQQQQQQQQQQQQQQQQ", "s3cr3t", "t0k3n"], completed.stderr


# -- secrets -----------------------------------------------------------------------------------------------------------


def test_secrets_are_read_by_their_owner_only(api: FakeApiServer) -> None:
    with simulated_aws():
        client = aws.client("secretsmanager", "us-east-1")
        vault = Vault(client, PLACE, {"environment": "dev"})
        vault.put("u-1", "token", "one")
        vault.put("u-10", "token", "ten")
        vault.put("u-1", "token", "two")
        assert [(row.name, row.reference) for row in vault.all("u-1")] == [("token", "sandbox-secrets/dev/u-1/token")]
        tested = exchange(api, vault=lambda _: client)
        assert run(tested.secret, "the-token", ADDRESS, "token") == "two"
        for name in ("other", "../u-10/token", "u-10/token", "*"):
            with pytest.raises(RefusedExchangeError) as refusal:
                run(tested.secret, "the-token", ADDRESS, name)
            assert refusal.value.why == "secret"
        assert vault.delete("u-1", "token")
        assert not vault.delete("u-1", "nothing")
        assert vault.all("u-1") == []
        vault.put("u-1", "token", "three")
        assert run(tested.secret, "the-token", ADDRESS, "token") == "three"
