"""Whoever has no business with a workspace, at the real service over the real API server: by whatever tokens, names and
requests, they come to nothing, and what they try changes nothing."""

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
from tests.live.conftest import REGION, World
from tests.live.controlplane.things import PATIENCE
from tests.live.service.blocking import Blocking
from tests.live.service.conftest import IMAGES, Box
from tests.live.service.serving import Served, configuration, serving

VETTED = {"claimableBy": {"roles": ["operator"], "tokens": [{"name": "team", "value": "vetted"}]}}


@dataclass
class Stage:
    """A service, its class, and what ann has."""

    served: Served
    box: Box
    mine: list[dict[str, Any]]

    def claims_of_owner(self) -> list[tuple[str, str, str]]:
        """Return ann's claims by uid, generation and annotations."""
        about = [
            metadata["metadata"]
            for metadata in self.box.all("sandboxclaims")
            if metadata["metadata"]["name"] in self.names
        ]
        return sorted(
            (metadata["uid"], str(metadata["generation"]), str(metadata["annotations"])) for metadata in about
        )

    @property
    def names(self) -> list[str]:
        return [workspace["id"] for workspace in self.mine]


@pytest.fixture(scope="module")
def stage(world: World, ground: Client, system: str) -> Iterator[Stage]:
    cluster = Blocking.from_kubeconfig(world.plane.kubeconfig())
    box = Box(f"box{uuid.uuid4().hex[:6]}", ground, cluster, system, more=VETTED)
    pool = box.deploy(IMAGES[0])
    assert until(lambda: box.full(pool), PATIENCE)
    issuer = FakeIssuer()
    table = f"ledger-{box.name}"
    world.aws("dynamodb").create_table(**create_table(table))
    configuration_ = replace(
        configuration(world.plane.kubeconfig(), issuer, [box.class_settings()]),
        ledger_table=table,
        secrets_prefix=f"arn:aws:secretsmanager:{REGION}:123456789012:secret:sandbox-secrets/{box.name}",
    )
    with pytest.MonkeyPatch.context() as patched, contextlib.ExitStack() as ending:
        for name, value in world.environment.items():
            patched.setenv(name, value)
        served = ending.enter_context(serving(configuration_, issuer))
        with served.client("ann") as ann:
            requests = [
                {"class": box.name},
                {"class": box.name, "mode": "agent", "agent": "a", "labels": {"team": "red"}},
            ]
            mine = [ann.post("/v1/workspaces", json=body, params={"wait": 60}).json() for body in requests]
            assert [workspace["state"] for workspace in mine] == ["running", "running"], mine
            # The marks that nobody waits for.
            noted = [f"{box.space}/{workspace['id']}" for workspace in mine]
            assert until(lambda: all(_marked(box, name) for name in noted), PATIENCE)
        yield Stage(served, box, mine)
    issuer.close()
    ground.delete(f"/api/v1/namespaces/{box.space}")
    cluster.close()


def _marked(box: Box, name: str) -> bool:
    notes = box.get("sandboxclaims", name.partition("/")[2])["metadata"].get("annotations") or {}
    return notes.get("sandbox.users.io/kept") == "true"


def test_only_tokens_that_count_are_answered(stage: Stage, ground: Client) -> None:
    issuer = stage.served.issuer
    refused = {
        "no token": None,
        "one of nobody": "opaque",
        "one that somebody else signed": issuer.token("ann", key=SigningKey("first")),
        "an expired one": issuer.token("ann", exp=1_700_000_000),
        "one for another service": issuer.token("ann", aud="sts.amazonaws.com"),
        "one bound to a key, sent by whoever found it": issuer.token("ann", cnf={"jkt": "x" * 43}),
        "the API server's own, for itself": _account_token(ground, "default", "default", None),
        "an account's for somebody else": _account_token(ground, "default", "default", "sts.amazonaws.com"),
    }
    for what, token in refused.items():
        with stage.served.bearing(token) as somebody:
            answer = somebody.get(f"/v1/workspaces/{stage.names[0]}")
            assert (answer.status_code, what) == (401, what), answer.text
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert answer.headers["content-type"] == "application/problem+json"
    with stage.served.bearing(_account_token(ground, "default", "default", AUDIENCE)) as account:
        assert account.get("/v1/me").json()["roles"] == ["user"]
        assert account.get(f"/v1/workspaces/{stage.names[0]}").status_code == 404


def test_a_token_of_an_account_that_is_gone_is_refused(stage: Stage, ground: Client) -> None:
    name = f"bot-{uuid.uuid4().hex[:6]}"
    ground.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}})
    with stage.served.bearing(_account_token(ground, "default", name, AUDIENCE)) as bot:
        assert bot.get("/v1/me").status_code == 200
        ground.delete(f"/api/v1/namespaces/default/serviceaccounts/{name}")
        assert until(lambda: bot.get("/v1/me").status_code == 401, PATIENCE + CACHE_SECONDS)


def test_forged_tokens_of_accounts_do_not_lock_out_others(stage: Stage, ground: Client) -> None:
    head, claims, signature = _account_token(ground, "default", "default", AUDIENCE).split(".")
    for number in range(UNAUTHENTICATED_PER_MINUTE + 10):
        forged = f"{signature[:-4]}{number:04d}"
        with stage.served.bearing(f"{head}.{claims}.{forged}") as attacker:
            assert attacker.get("/v1/me").status_code == 401
    name = f"bot-{uuid.uuid4().hex[:6]}"
    ground.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}})
    with stage.served.bearing(_account_token(ground, "default", name, AUDIENCE)) as bot:
        assert bot.get("/v1/me").status_code == 200


def test_what_runs_in_a_sandbox_asks_for_no_workspace(stage: Stage, ground: Client) -> None:
    with stage.served.bearing(_account_token(ground, stage.box.space, "sandbox", AUDIENCE)) as inside:
        assert inside.get("/v1/workspaces").status_code == 403


WAYS = (
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


def test_by_no_name_and_no_label_anybody_comes_to_anothers(stage: Stage) -> None:
    before = stage.claims_of_owner()
    known = [*stage.names, *(x["sandbox"] for x in stage.mine), stage.box.name, stage.box.space]
    spoilt = some.sampled_from(known).flatmap(
        lambda name: some.sampled_from(
            [name, name.upper(), f"{name}/", f"/{name}", f"../{name}", f"{name}%00", f"{name} ", f"{name}\n",
             f"{stage.box.space}/{name}", f"..%2f{name}", name[:-1], f"{name}.", f"{name};", f"home-{name}"]
        )
    )  # fmt: skip
    mob = [stage.served.client(name) for name in ("bob", "ann2", "ANN")]

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(some.sampled_from(mob), some.one_of(spoilt, some.text(max_size=70)), some.sampled_from(WAYS))
    def reach(who: httpx2.Client, name: str, way: tuple[str, str]) -> None:
        method, rest = way
        body = {"PATCH": {"labels": {}}, "PUT": {"mode": "ro"}}.get(method)
        answer = who.request(method, f"/v1/workspaces/{urllib.parse.quote(name, safe='')}{rest}", json=body)
        listed = answer.status_code == 200 and method == "GET" and answer.json().get("items") == []
        assert listed or answer.status_code in {404, 405, 422}, (method, name, rest, answer.status_code, answer.text)
        assert not any(id_ in answer.text for id_ in stage.names if id_ not in name)

    reach()

    @settings(max_examples=60, deadline=None)
    @given(
        some.dictionaries(
            some.sampled_from(["owner", "class", "task", "label", "everybody", "deleted", "after", "state", "reader"]),
            some.sampled_from([stage.mine[0]["owner"], stage.box.name, "team=red", "true", "a", "running", "=", ""]),
        )
    )
    def look(params: dict[str, str]) -> None:
        answer = mob[0].get("/v1/workspaces", params=params)
        assert answer.status_code in {200, 403, 422}
        assert answer.status_code != 200 or answer.json()["items"] == []

    look()
    for x in mob:
        body = {"class": stage.box.name, "owner": stage.mine[0]["owner"]}
        assert x.post("/v1/workspaces", json=body).status_code == 403
        body = {"class": stage.box.name, "mode": "agent", "agent": "b", "parent": stage.names[0]}
        assert x.post("/v1/workspaces", json=body).status_code == 404
        x.close()
    assert stage.claims_of_owner() == before


def test_what_is_shared_is_used_as_it_was_shared_and_no_longer_than_that(stage: Stage) -> None:
    id_ = stage.names[0]
    with stage.served.client("ann") as ann, stage.served.client("guest") as guest:
        who = guest.get("/v1/me").json()["owner"]
        assert guest.get(f"/v1/workspaces/{id_}").status_code == 404
        assert ann.patch(f"/v1/workspaces/{id_}", json={"shared": {who: "ro"}}).status_code == 200
        assert guest.get(f"/v1/workspaces/{id_}").json()["shared"] == {who: "ro"}
        assert guest.put(f"/v1/workspaces/{id_}/leases/me", json={"mode": "ro"}).status_code == 200
        assert guest.put(f"/v1/workspaces/{id_}/leases/me", json={"mode": "rw"}).status_code == 403
        assert guest.delete(f"/v1/workspaces/{id_}").status_code == 403
        assert until(lambda: len(guest.get("/v1/workspaces").json()["items"]) == 1, PATIENCE)
        assert ann.patch(f"/v1/workspaces/{id_}", json={"shared": {}}).status_code == 200
        assert guest.get(f"/v1/workspaces/{id_}").status_code == 404
        assert until(lambda: guest.get("/v1/workspaces").json()["items"] == [], PATIENCE)


def test_an_agents_own_is_held_by_one_at_a_time(stage: Stage) -> None:
    id_ = stage.names[1]
    with stage.served.client("ann") as ann:
        held = ann.put(f"/v1/workspaces/{id_}/leases/first", json={})
        assert [lease["holder"].partition("/")[2] for lease in held.json()["leases"]] == ["first"]
        busy = ann.put(f"/v1/workspaces/{id_}/leases/second", json={})
        assert (busy.status_code, busy.json()["type"]) == (409, "urn:agent-environment:problem:busy")
        assert ann.put(f"/v1/workspaces/{id_}/leases/first", json={}).status_code == 200
        assert ann.delete(f"/v1/workspaces/{id_}/leases/first").json()["leases"] == []
        assert ann.put(f"/v1/workspaces/{id_}/leases/second", json={}).status_code == 200


def test_the_api_is_as_it_is_described(stage: Stage, tmp_path: Path) -> None:
    description = tmp_path / "openapi.json"
    description.write_text(httpx2.get(f"{stage.served.urls[0]}/openapi.json", trust_env=False).text, "utf-8")
    token = stage.served.issuer.token("schemathesis", team="vetted")
    program = Path(sys.executable).with_name("schemathesis")
    # That two days are in their order, and no more than so many apart, no description can say.
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
        stage.served.urls[0],
        "-H",
        f"Authorization: Bearer {token}",
    ]
    command += ["--checks", "all", "--phases", "coverage,fuzzing,stateful"]
    command += ["--max-examples", "20", "--generation-database", "none", "--no-color", "--suppress-health-check", "all"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)  # type: ignore[arg-type]
    assert ran.returncode == 0, ran.stdout[-6000:]


def _account_token(client: Client, namespace: str, name: str, audience: str | None) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    spec = {"expirationSeconds": 600, **({"audiences": [audience]} if audience else {})}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return client.request("POST", path, body)["status"]["token"]
