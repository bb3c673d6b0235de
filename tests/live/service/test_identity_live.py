"""The exchange against the real API server: it accepts tokens bound to claimed pods, and refuses all others."""

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
from agentenv.rehearsal.controlplane.client import ApiError, has_condition, until
from agentenv.service.credentials.exchange import ClassRole, Exchange
from agentenv.service.credentials.token_bearer import RefusedExchangeError
from agentenv.service.credentials.vault import Vault
from tests.live.conftest import REGION, LiveCluster
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.blocking import run
from tests.live.service.conftest import EXTENSIONS, LiveClass
from tests.live.service.lifecycle import OWNER, Lifecycle

PLACE = SecretsPlace(f"arn:aws:secretsmanager:{REGION}:123456789012:secret:", "sandbox-secrets/dev")


@dataclass
class ExchangeCase:
    """A class whose sandboxes exchange tokens, and a claimed sandbox of it."""

    live: LiveCluster
    live_class: LiveClass
    lifecycle: Lifecycle
    exchange: Exchange
    name: str

    @property
    def sandbox(self) -> str:
        return self.lifecycle.sandbox(self.name)

    def pod(self, name: str = "") -> dict[str, Any]:
        return self.live_class.get("pods", name or self.sandbox, "/api/v1")

    def address(self, name: str = "") -> str:
        return str(self.pod(name)["status"]["podIP"])

    def token(self, pod: str | None = None, audience: str = AUDIENCE, account: str = "sandbox") -> str:
        """Return a token as a node requests it for a pod's volume; without a pod it is not bound."""
        spec: dict[str, Any] = {"audiences": [audience], "expirationSeconds": 3600}
        if pod is not None:
            about = self.pod(pod)["metadata"]
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": about["name"], "uid": about["uid"]}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{self.live_class.namespace}/serviceaccounts/{account}/token"
        return str(self.live_class.client.request("POST", path, request)["status"]["token"])

    def refused(self, token: str, address: str | None = None) -> str:
        """Return the reason of the refusal."""
        with pytest.raises(RefusedExchangeError) as refusal:
            run(self.exchange.credentials, token, self.address() if address is None else address)
        return refusal.value.why


@pytest.fixture
def case(live: LiveCluster, live_class: LiveClass) -> Iterator[ExchangeCase]:
    live_class.extra_settings = {"identity": {"kind": "exchange"}, "capabilities": ["dns", "identity"]}
    pool = live_class.deploy_until_full()
    lifecycle = Lifecycle(live_class, live)
    name = lifecycle.create_workspace(pool, retain=False)
    pod = f"/api/v1/namespaces/{live_class.namespace}/pods/{lifecycle.sandbox(name)}"
    # The claim is ready before the pod has the label of its owner.
    assert until(lambda: live_class.client.get(pod)["metadata"]["labels"].get(USER_LABEL) == OWNER, TIMEOUT)
    iam = live.aws("iam")
    trust = _text(role_trust("*", live_class.name))
    role = iam.create_role(RoleName=f"{live_class.name}-exchange", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    rights = _text(role_rights(PLACE, "vpc-1", []))
    iam.put_role_policy(RoleName=f"{live_class.name}-exchange", PolicyName="rights", PolicyDocument=rights)
    vault = live.aws("secretsmanager")
    api: Any = live_class.cluster.api
    exchange = Exchange(api, api, live.aws("sts"), {live_class.name: ClassRole(role)}, PLACE, vault=lambda _: vault)
    yield ExchangeCase(live, live_class, lifecycle, exchange, name)
    lifecycle.delete_all()


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document)


def test_exchange_accepts_only_the_token_of_a_claimed_pod_from_its_address(case: ExchangeCase) -> None:
    own, address = case.token(case.sandbox), case.address()

    # The audience of the mounted token is the exchange's.
    (volume,) = (volume for volume in case.pod()["spec"]["volumes"] if volume["name"] == "identity")
    assert volume["projected"]["sources"][0]["serviceAccountToken"]["audience"] == AUDIENCE

    credentials = run(case.exchange.credentials, own, address)
    assert credentials.session.endswith(f"-exchange/{case.name}")
    assert 3500 < credentials.expiration.timestamp() - time.time() <= 3600
    Vault(case.live.aws("secretsmanager"), PLACE).put(OWNER, "token", "a secret's value")
    assert run(case.exchange.secret, own, address, "token") == "a secret's value"
    with pytest.raises(RefusedExchangeError, match="ResourceNotFound"):
        run(case.exchange.secret, own, address, "another")

    # From another address
    idle = next(sandbox["metadata"]["name"] for sandbox in case.live_class.all("sandboxes", _AGENTS) if _free(sandbox))
    assert case.refused(own, case.address(idle)) == "address"
    assert case.refused(own, "10.0.0.1") == "address"
    # Of an unclaimed sandbox
    assert case.refused(case.token(idle), case.address(idle)) == "unclaimed"
    # For another audience, without a pod, of another account, forged, expired, absent
    assert case.refused(case.token(case.sandbox, "sts.amazonaws.com")) == "token"
    assert case.refused(case.token(case.sandbox, "https://kubernetes.default.svc")) == "token"
    assert case.refused(case.token()) == "unbound"
    assert case.refused(case.token(account="default")) == "account"
    with pytest.raises(ApiError, match="different serviceaccount"):
        case.token(case.sandbox, account="default")
    assert case.refused(_forged(own)) == "token"
    key = case.live.plane.layout.keys.accounts[0]
    assert _why(case, _dated(own, key, 1800), address) == ""
    assert case.refused(_dated(own, key, -3600)) == "token"
    assert case.refused("") == "no-token"

    # Without a role for the class
    api: Any = case.live_class.cluster.api
    elsewhere = Exchange(api, api, case.live.aws("sts"), {}, PLACE)
    with pytest.raises(RefusedExchangeError, match="does not have identity `exchange`"):
        run(elsewhere.credentials, own, address)

    # After the deletion of the claim nothing is exchanged, though the token is valid and its pod may still exist.
    path = f"{EXTENSIONS}/namespaces/{case.live_class.namespace}/sandboxclaims/{case.name}"
    case.live_class.client.delete(path)
    assert until(lambda: _why(case, own, address) in {"ended", "token", "pod", "unclaimed", "sandbox"}, TIMEOUT)
    assert until(lambda: _why(case, own, address) == "token", TIMEOUT), "the token of a deleted pod is still accepted"


def test_suspended_and_expired_workspaces_get_no_credentials(case: ExchangeCase) -> None:
    own, address = case.token(case.sandbox), case.address()
    run(case.exchange.credentials, own, address)
    path = f"{EXTENSIONS}/namespaces/{case.live_class.namespace}/sandboxclaims/{case.name}"
    note = {"metadata": {"annotations": {"sandbox.users.io/deadline": "2026-01-01T00:00:00Z"}}}
    case.live_class.client.merge(path, note)
    assert case.refused(own, address) == "ended"
    case.live_class.client.merge(path, {"metadata": {"annotations": {"sandbox.users.io/deadline": None}}})
    run(case.exchange.credentials, own, address)
    sandbox_path = f"{_AGENTS}/namespaces/{case.live_class.namespace}/sandboxes/{case.sandbox}"
    case.live_class.client.merge(sandbox_path, {"spec": {"operatingMode": "Suspended"}})
    assert until(lambda: _why(case, own, address) in {"ended", "pod", "token"}, TIMEOUT)
    assert until(lambda: _why(case, own, address) == "token", TIMEOUT)


_AGENTS = "/apis/agents.x-k8s.io/v1beta1"


def _free(sandbox: dict[str, Any]) -> bool:
    owners = sandbox["metadata"].get("ownerReferences") or [{}]
    return owners[0].get("kind") == "SandboxWarmPool" and has_condition(sandbox)


def _why(case: ExchangeCase, token: str, address: str) -> str:
    try:
        run(case.exchange.credentials, token, address)
    except RefusedExchangeError as refusal:
        return refusal.why
    return ""


def _forged(token: str) -> str:
    """Return a token with the same claims, signed with another key."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048)
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(claims, key, "RS256", {"kid": jwt.get_unverified_header(token)["kid"]})


def _dated(token: str, key: Path, left: int) -> str:
    """Return a token with the same claims that expires in so many seconds, signed with a key."""
    claims = jwt.decode(token, options={"verify_signature": False})
    end = int(time.time()) + left
    claims |= {"exp": end, "iat": end - 3600, "nbf": end - 3600}
    header = jwt.get_unverified_header(token)
    return jwt.encode(claims, key.read_bytes(), header["alg"], {"kid": header["kid"]})
