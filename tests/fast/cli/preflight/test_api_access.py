"""From where the API server of a new cluster would be reached, and over which transit gateway."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

import pytest

from agentenv.cli.preflight import api_access
from agentenv.cli.preflight.check import Check
from tests.fast.cli.preflight.conftest import StubbedSession
from tests.fast.config.stack_samples import settings

GATEWAY = "tgw-0a1b2c3d4e5f60718"
CALLER = {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:role/a", "UserId": "x"}
ROUTED: dict[str, Any] = {
    "cluster": {"publicAccessCidrs": []},
    "network": {"peers": ["10.0.0.0/16"], "transitGateway": GATEWAY},
}


def run_check(session: StubbedSession, name: str, sections: dict[str, Any]) -> Check:
    return session.check(api_access.questions(settings(sections)), name)


def test_a_public_endpoint_names_the_ranges_of_its_clients(stubbed: StubbedSession) -> None:
    check = run_check(stubbed, "a client of the API server", {})
    assert check.ok is True
    assert "run `pulumi up` from 203.0.113.0/24" in check.why


@pytest.mark.parametrize(("own", "ok"), [("10.0.3.4", True), ("192.168.1.5", None), (None, None)])
def test_a_private_endpoint_is_reached_from_its_ranges(
    stubbed: StubbedSession, monkeypatch: pytest.MonkeyPatch, own: str | None, ok: bool | None
) -> None:
    monkeypatch.setattr(api_access, "local_address", lambda _: own and IPv4Address(own))
    check = run_check(stubbed, "a client of the API server", ROUTED)
    assert check.ok is ok
    assert ok or "run `pulumi up` from 10.0.0.0/16" in check.why


def test_an_existing_cluster_is_reached_as_its_owner_decides() -> None:
    network = {"existing": {"vpcId": "vpc-0a1b2c3d", "privateSubnetIds": ["subnet-0a1b2c3d", "subnet-1a1b2c3d"]}}
    assert api_access.questions(settings({"cluster": {"existing": "shared"}, "network": network})) == []


@pytest.mark.parametrize(
    ("owner", "options", "ok"),
    [
        ("123456789012", {}, True),
        ("210987654321", {"AutoAcceptSharedAttachments": "enable"}, True),
        ("210987654321", {"AutoAcceptSharedAttachments": "disable"}, None),
    ],
)
def test_a_shared_transit_gateway_has_to_accept_attachments(
    stubbed: StubbedSession, owner: str, options: dict[str, str], ok: bool | None
) -> None:
    row = {"TransitGatewayId": GATEWAY, "State": "available", "OwnerId": owner, "Options": options}
    expected = {"TransitGatewayIds": [GATEWAY]}
    stubbed.stub("ec2").add_response("describe_transit_gateways", {"TransitGateways": [row]}, expected)
    stubbed.stub("sts").add_response("get_caller_identity", CALLER)
    assert run_check(stubbed, GATEWAY, ROUTED).ok is ok


def test_a_transit_gateway_that_the_account_does_not_see_fails(simulated: StubbedSession) -> None:
    check = run_check(simulated, GATEWAY, ROUTED)
    assert check.ok is False
    assert "AWS RAM" in check.why


def test_this_machine_has_an_address_towards_itself() -> None:
    assert api_access.local_address("127.0.0.1") == IPv4Address("127.0.0.1")
