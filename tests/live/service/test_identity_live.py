"""The exchange against the real API server: tokens bound to real pods, and what becomes of every other kind."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest

from agentenv.core.classes.names import USER_LABEL
from agentenv.core.iam.identity_exchange import AUDIENCE, SecretsPlace, role_rights, role_trust
from agentenv.rehearsal.controlplane.client import ApiError, until
from agentenv.service.credentials.exchange import ClassRole, Exchange
from agentenv.service.credentials.token_bearer import RefusedExchangeError
from agentenv.service.credentials.vault import Vault
from tests.live.conftest import REGION, World
from tests.live.controlplane.things import PATIENCE
from tests.live.service.blocking import run
from tests.live.service.conftest import EXTENSIONS, IMAGES, Box
from tests.live.service.lifecycle import OWNER, Stage

PLACE = SecretsPlace(f"arn:aws:secretsmanager:{REGION}:123456789012:secret:", "sandbox-secrets/dev")


@dataclass
class Trading:
    """A class whose sandboxes exchange tokens, one of which somebody has."""

    world: World
    box: Box
    stage: Stage
    exchange: Exchange
    name: str

    @property
    def sandbox(self) -> str:
        return self.stage.sandbox(self.name)

    def pod(self, name: str = "") -> dict[str, Any]:
        return self.box.get("pods", name or self.sandbox, "/api/v1")

    def address(self, name: str = "") -> str:
        return str(self.pod(name)["status"]["podIP"])

    def token(self, pod: str | None = None, audience: str = AUDIENCE, account: str = "sandbox") -> str:
        """Return a token as a node requests it for a pod's volume; without a pod it is not bound."""
        spec: dict[str, Any] = {"audiences": [audience], "expirationSeconds": 3600}
        if pod is not None:
            about = self.pod(pod)["metadata"]
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": about["name"], "uid": about["uid"]}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{self.box.space}/serviceaccounts/{account}/token"
        return str(self.box.client.request("POST", path, request)["status"]["token"])

    def refused(self, token: str, address: str | None = None) -> str:
        """Why nothing is exchanged."""
        with pytest.raises(RefusedExchangeError) as refusal:
            run(self.exchange.credentials, token, self.address() if address is None else address)
        return refusal.value.why


@pytest.fixture
def trading(world: World, box: Box) -> Iterator[Trading]:
    box.more = {"identity": {"kind": "exchange"}, "capabilities": ["dns", "identity"]}
    pool = box.deploy(IMAGES[0])
    assert until(lambda: box.full(pool), PATIENCE)
    stage = Stage(box, world)
    name = stage.make(pool, keep_it=False)
    pod = f"/api/v1/namespaces/{box.space}/pods/{stage.sandbox(name)}"
    # The claim is ready as soon as it has the sandbox, whose pod is told a moment later whose it is.
    assert until(lambda: box.client.get(pod)["metadata"]["labels"].get(USER_LABEL) == OWNER, PATIENCE)
    iam = world.aws("iam")
    role = iam.create_role(RoleName=f"{box.name}-exchange", AssumeRolePolicyDocument=_text(role_trust("*", box.name)))[
        "Role"
    ]["Arn"]
    rights = _text(role_rights(PLACE, "vpc-1", []))
    iam.put_role_policy(RoleName=f"{box.name}-exchange", PolicyName="rights", PolicyDocument=rights)
    vault = world.aws("secretsmanager")
    api: Any = box.cluster.api
    exchange = Exchange(api, api, world.aws("sts"), {box.name: ClassRole(role)}, PLACE, vault=lambda _: vault)
    yield Trading(world, box, stage, exchange, name)
    stage.clear()


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document)


def test_only_a_claimed_pods_own_token_from_its_own_address_while_it_is_claimed(trading: Trading) -> None:
    own, address = trading.token(trading.sandbox), trading.address()

    # What a sandbox of the class has is what the exchange takes.
    (volume,) = (volume for volume in trading.pod()["spec"]["volumes"] if volume["name"] == "identity")
    assert volume["projected"]["sources"][0]["serviceAccountToken"]["audience"] == AUDIENCE

    credentials = run(trading.exchange.credentials, own, address)
    assert credentials.session.endswith(f"-exchange/{trading.name}")
    assert 3500 < credentials.expiration.timestamp() - time.time() <= 3600
    Vault(trading.world.aws("secretsmanager"), PLACE).put(OWNER, "token", "a secret's value")
    assert run(trading.exchange.secret, own, address, "token") == "a secret's value"
    with pytest.raises(RefusedExchangeError, match="ResourceNotFound"):
        run(trading.exchange.secret, own, address, "another")

    # Somebody else brings it, from where they are.
    idle = next(sandbox["metadata"]["name"] for sandbox in trading.box.all("sandboxes", _AGENTS) if _free(sandbox))
    assert trading.refused(own, trading.address(idle)) == "address"
    assert trading.refused(own, "10.0.0.1") == "address"
    # Nobody has claimed it yet.
    assert trading.refused(trading.token(idle), trading.address(idle)) == "unclaimed"
    # Of other kinds.
    assert trading.refused(trading.token(trading.sandbox, "sts.amazonaws.com")) == "token"
    assert trading.refused(trading.token(trading.sandbox, "https://kubernetes.default.svc")) == "token"
    assert trading.refused(trading.token()) == "unbound"
    assert trading.refused(trading.token(account="default")) == "account"
    with pytest.raises(ApiError, match="different serviceaccount"):
        trading.token(trading.sandbox, account="default")
    assert trading.refused(_forged(own)) == "token"
    key = trading.world.plane.layout.keys.accounts[0]
    assert _why(trading, _dated(own, key, 1800), address) == ""
    assert trading.refused(_dated(own, key, -3600)) == "token"
    assert trading.refused("") == "no-token"

    # Another class has another role, or none.
    api: Any = trading.box.cluster.api
    elsewhere = Exchange(api, api, trading.world.aws("sts"), {}, PLACE)
    with pytest.raises(RefusedExchangeError, match="does not have identity `exchange`"):
        run(elsewhere.credentials, own, address)

    # The claim ends: from that moment nothing is exchanged, though the token lasts and its pod may still be there.
    path = f"{EXTENSIONS}/namespaces/{trading.box.space}/sandboxclaims/{trading.name}"
    trading.box.client.delete(path)
    assert until(lambda: _why(trading, own, address) in {"ended", "token", "pod", "unclaimed", "sandbox"}, PATIENCE)
    assert until(lambda: _why(trading, own, address) == "token", PATIENCE), "a pod that went takes its token along"


def test_who_is_to_sleep_or_is_over_time_gets_nothing(trading: Trading) -> None:
    own, address = trading.token(trading.sandbox), trading.address()
    run(trading.exchange.credentials, own, address)
    path = f"{EXTENSIONS}/namespaces/{trading.box.space}/sandboxclaims/{trading.name}"
    note = {"metadata": {"annotations": {"sandbox.users.io/deadline": "2026-01-01T00:00:00Z"}}}
    trading.box.client.merge(path, note)
    assert trading.refused(own, address) == "ended"
    trading.box.client.merge(path, {"metadata": {"annotations": {"sandbox.users.io/deadline": None}}})
    run(trading.exchange.credentials, own, address)
    box = f"{_AGENTS}/namespaces/{trading.box.space}/sandboxes/{trading.sandbox}"
    trading.box.client.merge(box, {"spec": {"operatingMode": "Suspended"}})
    assert until(lambda: _why(trading, own, address) in {"ended", "pod", "token"}, PATIENCE)
    assert until(lambda: _why(trading, own, address) == "token", PATIENCE)


_AGENTS = "/apis/agents.x-k8s.io/v1beta1"


def _free(sandbox: dict[str, Any]) -> bool:
    owners = sandbox["metadata"].get("ownerReferences") or [{}]
    conditions = (sandbox.get("status") or {}).get("conditions") or []
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return owners[0].get("kind") == "SandboxWarmPool" and ready


def _why(trading: Trading, token: str, address: str) -> str:
    try:
        run(trading.exchange.credentials, token, address)
    except RefusedExchangeError as refusal:
        return refusal.why
    return ""


def _forged(token: str) -> str:
    """The same claims, signed by somebody else."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048)
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(claims, key, "RS256", {"kid": jwt.get_unverified_header(token)["kid"]})


def _dated(token: str, key: Path, left: int) -> str:
    """The same claims with the right signature, that end in so many seconds."""
    claims = jwt.decode(token, options={"verify_signature": False})
    end = int(time.time()) + left
    claims |= {"exp": end, "iat": end - 3600, "nbf": end - 3600}
    header = jwt.get_unverified_header(token)
    return jwt.encode(claims, key.read_bytes(), header["alg"], {"kid": header["kid"]})
