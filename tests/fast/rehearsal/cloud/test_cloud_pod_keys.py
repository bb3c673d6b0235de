"""Keys for a service account: from an association before an annotation, new ones in time, and none for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from agentenv.rehearsal.cloud.server import Cloud
from agentenv.rehearsal.controlplane.auth import pod_credentials
from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.auth.pod_credentials import AGENT, PODS, STS, NoCredentials, PodCredentials
from agentenv.rehearsal.controlplane.client import Client
from tests.fast.rehearsal.cloud.calls import ACCOUNT, allow
from tests.fast.rehearsal.cloud.conftest import ClientFactory
from tests.fast.rehearsal.cloud.signer import Signer

SPACE, NAME = "system", "driver"


@dataclass
class Server:
    """A stub of an API server for one service account."""

    signer: Signer
    annotations: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def find(self, path: str) -> dict[str, Any]:
        assert path == f"/api/v1/namespaces/{SPACE}/serviceaccounts/{NAME}"
        return {"metadata": {"annotations": self.annotations}}

    def request(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert (method, path) == ("POST", f"/api/v1/namespaces/{SPACE}/serviceaccounts/{NAME}/token")
        (audience,) = body["spec"]["audiences"]
        self.requests.append(audience)
        return {"status": {"token": self.signer.token(f"{SPACE}/{NAME}", audience)}}


@pytest.fixture(scope="module")
def server(aws_client: ClientFactory, signer: Signer, provider: str) -> Iterator[Server]:
    """A cluster whose tokens are known, and two roles for its driver."""
    iam = aws_client("iam")
    agent = {"Action": ["sts:AssumeRole", "sts:TagSession"], "Principal": {"Service": PODS}}
    web = {"Action": "sts:AssumeRoleWithWebIdentity", "Principal": {"Federated": provider}}
    for name, who in (("by-agent", agent), ("by-token", web)):
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=allow(Resource=..., **who))
    yield Server(signer)
    for name in ("by-agent", "by-token"):
        iam.delete_role(RoleName=name)


@pytest.fixture
def keys(cloud: Cloud, server: Server) -> PodCredentials:
    server.annotations.clear()
    server.requests.clear()
    account = Account(cloud.url, "us-east-1", "AKIAIOSFODNN7EXAMPLE", "no secret", "k")
    return PodCredentials(cast("Client", server), account, SPACE, NAME)


def who(keys: PodCredentials) -> str:
    return keys.service("sts").get_caller_identity()["Arn"].split("/")[1]


def test_pod_without_association_and_annotation_gets_no_keys(keys: PodCredentials) -> None:
    with pytest.raises(NoCredentials, match="neither an association of Pod Identity nor an annotation"):
        keys.service("sts")


def test_annotated_service_account_gets_keys_for_a_token(keys: PodCredentials, server: Server) -> None:
    server.annotations[pod_credentials.ROLE] = f"arn:aws:iam::{ACCOUNT}:role/by-token"
    assert who(keys) == "by-token"
    assert server.requests == [STS]
    server.annotations[pod_credentials.ROLE] = f"arn:aws:iam::{ACCOUNT}:role/by-agent"
    assert who(keys) == "by-token"  # until they are fetched again
    keys.forget()
    with pytest.raises(NoCredentials, match=r"AccessDenied.*AssumeRoleWithWebIdentity"):
        who(keys)


def test_association_takes_precedence_and_needs_the_agent(
    keys: PodCredentials, server: Server, aws_client: ClientFactory
) -> None:
    eks, pair = aws_client("eks"), {"namespace": SPACE, "serviceAccount": NAME}
    server.annotations[pod_credentials.ROLE] = f"arn:aws:iam::{ACCOUNT}:role/by-token"
    arn = f"arn:aws:iam::{ACCOUNT}:role/by-agent"
    created = eks.create_pod_identity_association(clusterName="k", roleArn=arn, **pair)["association"]
    try:
        with pytest.raises(NoCredentials, match="eks-pod-identity-agent that provides it is not installed"):
            who(keys)
        eks.create_addon(clusterName="k", addonName=AGENT)
        assert who(keys) == "by-agent"
        assert server.requests == [PODS]
    finally:
        eks.delete_pod_identity_association(clusterName="k", associationId=created["associationId"])


def test_keys_are_refreshed_before_they_expire(
    keys: PodCredentials, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.annotations[pod_credentials.ROLE] = f"arn:aws:iam::{ACCOUNT}:role/by-token"
    who(keys)
    who(keys)
    assert len(server.requests) == 1
    now = pod_credentials.time.time()
    for later, fetched in ((3200, 1), (3400, 2)):
        monkeypatch.setattr(pod_credentials.time, "time", lambda later=later: now + later)
        keys.service("sts")
        assert len(server.requests) == fetched
