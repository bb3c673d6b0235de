"""Other callers neither read nor change a workspace, by any token, name or request, over the real API server."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.parse
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from agentenv.core.ledger.table import create_table
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.service.http.auth.authenticate import UNAUTHENTICATED_PER_MINUTE
from agentenv.service.http.auth.token_reviews import CACHE_SECONDS
from tests.fast.service.http.auth.issuer import AUDIENCE, FakeIssuer, SigningKey
from tests.live.conftest import REGION, LiveCluster
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.blocking import Blocking
from tests.live.service.conftest import LiveClass
from tests.live.service.serving import Served, configuration, serving

VETTED = {"claimableBy": {"roles": ["operator"], "tokens": [{"name": "team", "value": "vetted"}]}}


@dataclass
class ServedWorkspaces:
    """A served class, and the workspaces of ann."""

    served: Served
    live_class: LiveClass
    of_ann: list[dict[str, Any]]

    def claims_of_owner(self) -> list[tuple[str, str, str]]:
        """Return ann's claims by uid, generation and annotations."""
        about = [
            metadata["metadata"]
            for metadata in self.live_class.all("sandboxclaims")
            if metadata["metadata"]["name"] in self.names
        ]
        return sorted(
            (metadata["uid"], str(metadata["generation"]), str(metadata["annotations"])) for metadata in about
        )

    @property
    def names(self) -> list[str]:
        return [workspace["id"] for workspace in self.of_ann]


@pytest.fixture(scope="module")
def workspaces(live: LiveCluster, cluster_client: Client, file_system: str) -> Iterator[ServedWorkspaces]:
    cluster = Blocking.from_kubeconfig(live.plane.kubeconfig())
    live_class = LiveClass(f"box{uuid.uuid4().hex[:6]}", cluster_client, cluster, file_system, extra_settings=VETTED)
    live_class.deploy_until_full()
    issuer = FakeIssuer()
    table = f"ledger-{live_class.name}"
    live.aws("dynamodb").create_table(**create_table(table))
    configuration_ = replace(
        configuration(live.plane.kubeconfig(), issuer, [live_class.class_settings()]),
        ledger_table=table,
        secrets_prefix=f"arn:aws:secretsmanager:{REGION}:123456789012:secret:sandbox-secrets/{live_class.name}",
    )
    with pytest.MonkeyPatch.context() as patched, contextlib.ExitStack() as ending:
        for name, value in live.environment.items():
            patched.setenv(name, value)
        served = ending.enter_context(serving(configuration_, issuer))
        with served.client("ann") as ann:
            requests = [
                {"class": live_class.name},
                {"class": live_class.name, "mode": "agent", "agent": "a", "labels": {"team": "red"}},
            ]
            of_ann = [ann.post("/v1/workspaces", json=body, params={"wait": 60}).json() for body in requests]
            assert [workspace["state"] for workspace in of_ann] == ["running", "running"], of_ann
            # The marks that the service writes after its response
            noted = [f"{live_class.namespace}/{workspace['id']}" for workspace in of_ann]
            assert until(lambda: all(_marked(live_class, name) for name in noted), TIMEOUT)
        yield ServedWorkspaces(served, live_class, of_ann)
    issuer.close()
    cluster_client.delete(f"/api/v1/namespaces/{live_class.namespace}")
    cluster.close()


def _marked(live_class: LiveClass, name: str) -> bool:
    notes = live_class.get("sandboxclaims", name.partition("/")[2])["metadata"].get("annotations") or {}
    return notes.get("sandbox.users.io/kept") == "true"


def test_only_valid_tokens_are_accepted(workspaces: ServedWorkspaces, cluster_client: Client) -> None:
    issuer = workspaces.served.issuer
    refused = {
        "no token": None,
        "one of nobody": "opaque",
        "one that somebody else signed": issuer.token("ann", key=SigningKey("first")),
        "an expired one": issuer.token("ann", exp=1_700_000_000),
        "one for another service": issuer.token("ann", aud="sts.amazonaws.com"),
        "one bound to a key, sent by whoever found it": issuer.token("ann", cnf={"jkt": "x" * 43}),
        "the API server's own, for itself": _account_token(cluster_client, "default", "default", None),
        "an account's for somebody else": _account_token(cluster_client, "default", "default", "sts.amazonaws.com"),
    }
    for what, token in refused.items():
        with workspaces.served.client_with_token(token) as somebody:
            answer = somebody.get(f"/v1/workspaces/{workspaces.names[0]}")
            assert (answer.status_code, what) == (401, what), answer.text
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert answer.headers["content-type"] == "application/problem+json"
    with workspaces.served.client_with_token(_account_token(cluster_client, "default", "default", AUDIENCE)) as account:
        assert account.get("/v1/me").json()["roles"] == ["user"]
        assert account.get(f"/v1/workspaces/{workspaces.names[0]}").status_code == 404


def test_token_of_a_deleted_account_is_refused(workspaces: ServedWorkspaces, cluster_client: Client) -> None:
    name = f"bot-{uuid.uuid4().hex[:6]}"
    cluster_client.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}
    )
    with workspaces.served.client_with_token(_account_token(cluster_client, "default", name, AUDIENCE)) as bot:
        assert bot.get("/v1/me").status_code == 200
        cluster_client.delete(f"/api/v1/namespaces/default/serviceaccounts/{name}")
        assert until(lambda: bot.get("/v1/me").status_code == 401, TIMEOUT + CACHE_SECONDS)


def test_forged_account_tokens_do_not_lock_out_others(workspaces: ServedWorkspaces, cluster_client: Client) -> None:
    head, claims, signature = _account_token(cluster_client, "default", "default", AUDIENCE).split(".")
    for number in range(UNAUTHENTICATED_PER_MINUTE + 10):
        forged = f"{signature[:-4]}{number:04d}"
        with workspaces.served.client_with_token(f"{head}.{claims}.{forged}") as attacker:
            assert attacker.get("/v1/me").status_code == 401
    name = f"bot-{uuid.uuid4().hex[:6]}"
    cluster_client.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}
    )
    with workspaces.served.client_with_token(_account_token(cluster_client, "default", name, AUDIENCE)) as bot:
        assert bot.get("/v1/me").status_code == 200


def test_sandbox_account_may_not_use_the_api(workspaces: ServedWorkspaces, cluster_client: Client) -> None:
    with workspaces.served.client_with_token(
        _account_token(cluster_client, workspaces.live_class.namespace, "sandbox", AUDIENCE)
    ) as inside:
        assert inside.get("/v1/workspaces").status_code == 403


OPERATIONS = (
    ("GET", ""),
    ("PATCH", ""),
    ("DELETE", ""),
    ("DELETE", "?destroy=true"),
    ("POST", "/suspend"),
    ("POST", "/resume"),
    ("PUT", "/leases/agent"),
    ("DELETE", "/leases/agent"),
    ("GET", "/events"),
)


def test_no_name_and_no_label_reaches_a_workspace_of_others(workspaces: ServedWorkspaces) -> None:
    before = workspaces.claims_of_owner()
    known = [
        *workspaces.names,
        *(workspace["sandbox"] for workspace in workspaces.of_ann),
        workspaces.live_class.name,
        workspaces.live_class.namespace,
    ]
    spoilt = some.sampled_from(known).flatmap(
        lambda name: some.sampled_from(
            [name, name.upper(), f"{name}/", f"/{name}", f"../{name}", f"{name}%00", f"{name} ", f"{name}\n",
             f"{workspaces.live_class.namespace}/{name}",
             f"..%2f{name}", name[:-1], f"{name}.", f"{name};", f"home-{name}"]
        )
    )  # fmt: skip
    callers = [workspaces.served.client(name) for name in ("bob", "ann2", "ANN")]

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(some.sampled_from(callers), some.one_of(spoilt, some.text(max_size=70)), some.sampled_from(OPERATIONS))
    def reach(who: httpx2.Client, name: str, operation: tuple[str, str]) -> None:
        method, rest = operation
        body = {"PATCH": {"labels": {}}, "PUT": {"mode": "ro"}}.get(method)
        answer = who.request(method, f"/v1/workspaces/{urllib.parse.quote(name, safe='')}{rest}", json=body)
        listed = answer.status_code == 200 and method == "GET" and answer.json().get("items") == []
        assert listed or answer.status_code in {404, 405, 422}, (method, name, rest, answer.status_code, answer.text)
        assert not any(id_ in answer.text for id_ in workspaces.names if id_ not in name)

    reach()

    @settings(max_examples=60, deadline=None)
    @given(
        some.dictionaries(
            some.sampled_from(["owner", "class", "task", "label", "everybody", "deleted", "after", "state", "reader"]),
            some.sampled_from(
                [workspaces.of_ann[0]["owner"], workspaces.live_class.name, "team=red", "true", "a", "running", "=", ""]
            ),
        )
    )
    def list_workspaces(params: dict[str, str]) -> None:
        answer = callers[0].get("/v1/workspaces", params=params)
        assert answer.status_code in {200, 403, 422}
        assert answer.status_code != 200 or answer.json()["items"] == []

    list_workspaces()
    for caller in callers:
        body = {"class": workspaces.live_class.name, "owner": workspaces.of_ann[0]["owner"]}
        assert caller.post("/v1/workspaces", json=body).status_code == 403
        body = {"class": workspaces.live_class.name, "mode": "agent", "agent": "b", "parent": workspaces.names[0]}
        assert caller.post("/v1/workspaces", json=body).status_code == 404
        caller.close()
    assert workspaces.claims_of_owner() == before


def test_sharing_grants_its_mode_until_it_is_withdrawn(workspaces: ServedWorkspaces) -> None:
    id_ = workspaces.names[0]
    with workspaces.served.client("ann") as ann, workspaces.served.client("guest") as guest:
        who = guest.get("/v1/me").json()["owner"]
        assert guest.get(f"/v1/workspaces/{id_}").status_code == 404
        assert ann.patch(f"/v1/workspaces/{id_}", json={"shared": {who: "ro"}}).status_code == 200
        assert guest.get(f"/v1/workspaces/{id_}").json()["shared"] == {who: "ro"}
        assert guest.put(f"/v1/workspaces/{id_}/leases/me", json={"mode": "ro"}).status_code == 200
        assert guest.put(f"/v1/workspaces/{id_}/leases/me", json={"mode": "rw"}).status_code == 403
        assert guest.delete(f"/v1/workspaces/{id_}").status_code == 403
        assert until(lambda: len(guest.get("/v1/workspaces").json()["items"]) == 1, TIMEOUT)
        assert ann.patch(f"/v1/workspaces/{id_}", json={"shared": {}}).status_code == 200
        assert guest.get(f"/v1/workspaces/{id_}").status_code == 404
        assert until(lambda: guest.get("/v1/workspaces").json()["items"] == [], TIMEOUT)


def test_agent_workspace_has_one_writer_at_a_time(workspaces: ServedWorkspaces) -> None:
    id_ = workspaces.names[1]
    with workspaces.served.client("ann") as ann:
        held = ann.put(f"/v1/workspaces/{id_}/leases/first", json={})
        assert [lease["holder"].partition("/")[2] for lease in held.json()["leases"]] == ["first"]
        busy = ann.put(f"/v1/workspaces/{id_}/leases/second", json={})
        assert (busy.status_code, busy.json()["type"]) == (409, "urn:agent-environment:problem:busy")
        assert ann.put(f"/v1/workspaces/{id_}/leases/first", json={}).status_code == 200
        assert ann.delete(f"/v1/workspaces/{id_}/leases/first").json()["leases"] == []
        assert ann.put(f"/v1/workspaces/{id_}/leases/second", json={}).status_code == 200


def test_api_conforms_to_its_openapi_description(workspaces: ServedWorkspaces, tmp_path: Path) -> None:
    description = tmp_path / "openapi.json"
    url = f"{workspaces.served.urls[0]}/openapi.json"
    description.write_text(httpx2.get(url, trust_env=False, timeout=TIMEOUT).text, "utf-8")
    token = workspaces.served.issuer.token("schemathesis", team="vetted")
    program = Path(sys.executable).with_name("schemathesis")
    # OpenAPI cannot express that two dates are in order and not too far apart.
    config = tmp_path / "schemathesis.toml"
    known = ["2xx", "3xx", "401", "403", "404", "409", "422", "429", "5xx"]
    checks = f"[operations.checks.positive_data_acceptance]\nexpected-statuses = {known}\n"
    config.write_text(f'[[operations]]\ninclude-name = "GET /v1/usage"\n{checks}', "utf-8")
    command: list[str | Path] = [
        program,
        "--config-file",
        config,
        "run",
        description,
        "--url",
        workspaces.served.urls[0],
        "-H",
        f"Authorization: Bearer {token}",
    ]
    # A stream of events does not end; tests/fast/service/http/test_events.py reads it.
    command += ["--exclude-path", "/v1/events"]
    command += ["--checks", "all", "--phases", "coverage,fuzzing,stateful"]
    command += [
        "--max-examples",
        "20",
        "--generation-database",
        "none",
        "--seed",
        "1",
        f"--request-timeout={TIMEOUT}",
        "--no-color",
        "--suppress-health-check",
        "all",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)  # type: ignore[arg-type]
    assert ran.returncode == 0, ran.stdout[-6000:]


def _account_token(client: Client, namespace: str, name: str, audience: str | None) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    spec = {"expirationSeconds": 600, **({"audiences": [audience]} if audience else {})}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return client.request("POST", path, body)["status"]["token"]
