"""The address of a caller behind the gateway is believed of the gateway's pods alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentenv.service.gateway.pods import GatewayPods
from agentenv.service.http.auth.authenticate import UNAUTHENTICATED_PER_MINUTE
from tests.fast.service.http.application import ApiClient, run_with_api

ENVOY, OTHER = "10.40.3.7", "10.40.3.8"
GUESS = f"e2b_{'0' * 52}"


def pod(name: str = "envoy-1", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "gateway"}, "status": status}


def known() -> GatewayPods:
    pods = GatewayPods()
    pods.put(pod(phase="Running", podIP=ENVOY))
    return pods


@pytest.mark.parametrize(
    ("peer", "forwarded", "source"),
    [
        (ENVOY, "192.0.2.1", "192.0.2.1"),
        (ENVOY, "198.51.100.9, 192.0.2.1", "192.0.2.1"),
        (ENVOY, "2001:db8::1", "2001:db8::1"),
        (ENVOY, "", ENVOY),
        (ENVOY, "a workspace", ENVOY),
        (OTHER, "192.0.2.1", OTHER),
        ("unknown", "192.0.2.1", "unknown"),
    ],
)
def test_source_is_forwarded_by_pods_of_the_gateway_alone(peer: str, forwarded: str, source: str) -> None:
    assert known().source(peer, forwarded) == source


@pytest.mark.parametrize("ended", [pod(phase="Succeeded", podIP=ENVOY), pod(phase="Pending")])
def test_address_of_an_ended_pod_is_not_believed(ended: dict[str, Any]) -> None:
    pods = known()
    pods.put(ended)
    assert pods.source(ENVOY, "192.0.2.1") == ENVOY


def test_address_of_a_deleted_pod_is_not_believed() -> None:
    pods = known()
    pods.drop(("gateway", "envoy-1"))
    assert pods.source(ENVOY, "192.0.2.1") == ENVOY


def test_callers_behind_the_gateway_are_limited_by_their_own_addresses() -> None:
    async def act(api: ApiClient) -> None:
        async def guess(source: str) -> int:
            headers = {"X-API-Key": GUESS, "X-Forwarded-For": source}
            return (await api.client.get("/v1/workspaces", headers=headers)).status_code

        # What the transport of these tests has as its peer
        api.dependencies.gateway_pods.put(pod(phase="Running", podIP="127.0.0.1"))
        guesses = await asyncio.gather(*(guess("192.0.2.1") for _ in range(UNAUTHENTICATED_PER_MINUTE + 1)))
        assert 429 in guesses
        assert await guess("192.0.2.1") == 429
        assert await guess("192.0.2.2") == 401
        # Who is none of its pods cannot choose an address.
        api.dependencies.gateway_pods.drop(("gateway", "envoy-1"))
        answers = await asyncio.gather(*(guess(f"198.51.100.{number}") for number in range(100)))
        assert answers.count(429) >= 100 - UNAUTHENTICATED_PER_MINUTE

    run_with_api(act)
