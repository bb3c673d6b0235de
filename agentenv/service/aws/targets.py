"""The targets of a load balancer: addresses with their health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentenv.service.aws.clients import call, client


class Targets(Protocol):
    """The targets of one target group."""

    def health(self) -> Mapping[str, str]:
        """Return the state of each registered address."""
        ...

    def register(self, addresses: Sequence[str]) -> None:
        """Register addresses."""
        ...

    def deregister(self, addresses: Sequence[str]) -> None:
        """Deregister addresses; the balancer stops to send new connections there within a minute or two."""
        ...


class TargetGroup:
    """A target group of Elastic Load Balancing."""

    def __init__(self, region: str, arn: str) -> None:
        self._elb, self._arn = client("elbv2", region), arn

    def health(self) -> dict[str, str]:
        """Return the state of each registered address."""
        response = call(self._elb, "describe_target_health", TargetGroupArn=self._arn)
        rows: Sequence[Mapping[str, Any]] = response["TargetHealthDescriptions"]
        return {row["Target"]["Id"]: row["TargetHealth"]["State"] for row in rows}

    def register(self, addresses: Sequence[str]) -> None:
        """Register addresses, with the group's own port."""
        call(self._elb, "register_targets", TargetGroupArn=self._arn, Targets=_targets(addresses))

    def deregister(self, addresses: Sequence[str]) -> None:
        """Deregister addresses."""
        call(self._elb, "deregister_targets", TargetGroupArn=self._arn, Targets=_targets(addresses))


def _targets(addresses: Sequence[str]) -> list[dict[str, str]]:
    return [{"Id": address} for address in addresses]
