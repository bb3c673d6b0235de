"""Check from where the API server of a new cluster would be reached, and the transit gateway that leads to it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from agentenv.cli.preflight.aws_calls import Account, AwsCallError
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings

HTTPS = 443


def questions(settings: Settings) -> list[Question]:
    """Return the questions about a new cluster; an existing one is its owner's."""
    return list(_questions(settings))


def _questions(settings: Settings) -> Iterator[Question]:
    if gateway := settings.network.transit_gateway:
        yield Question(gateway, "available", lambda account: _transit_gateway(account, gateway))
    if settings.cluster.existing is None:
        public = settings.cluster.public_access_cidrs
        ranges = public or settings.private_access
        needed = ", ".join(map(str, ranges))
        yield Question("a client of the API server", f"in {needed}", lambda _: _client(ranges, public=bool(public)))


def _client(ranges: tuple[IPv4Network, ...], *, public: bool) -> Answer:
    """Return whether this machine is in the ranges. Its public address is that of a gateway, and not known here."""
    where = f"run `pulumi up` from {', '.join(map(str, ranges))}"
    if public:
        return Answer("the public endpoint", ok=True, why=f"{where}: no other address reaches the API server")
    own = local_address(str(ranges[0].network_address))
    if own is not None and any(own in network for network in ranges):
        return Answer(str(own), ok=True, why="")
    why = f"{where}: the API server has private addresses only, and admits no other client outside of the VPC"
    return Answer(str(own or "no route"), ok=None, why=why)


def local_address(towards: str) -> IPv4Address | None:
    """Return this machine's address on the way to another one; None without a route. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((towards, HTTPS))
        except OSError:
            return None
        return IPv4Address(probe.getsockname()[0])


def _transit_gateway(account: Account, gateway: str) -> Answer:
    try:
        rows = account.call("ec2", "describe_transit_gateways", TransitGatewayIds=[gateway])["TransitGateways"]
    except AwsCallError as error:
        if not error.code.startswith("InvalidTransitGatewayID"):
            raise
        rows = []
    if not rows:
        why = f"this account does not see {gateway}: share it with {account.identity['Account']} in AWS RAM"
        return Answer("none", ok=False, why=why)
    (row,) = rows
    if row["State"] != "available":
        return Answer(row["State"], ok=False, why=f"{gateway} is {row['State']}")
    accepts = row.get("Options", {}).get("AutoAcceptSharedAttachments") == "enable"
    if row["OwnerId"] != account.identity["Account"] and not accepts:
        why = f"its owner {row['OwnerId']} has to accept the attachment while `pulumi up` waits for it"
        return Answer("available", ok=None, why=why)
    return Answer("available", ok=True, why="")
