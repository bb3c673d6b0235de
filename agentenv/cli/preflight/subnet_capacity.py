"""Check that existing subnets have enough free addresses for nodes and pods."""

from __future__ import annotations

from math import ceil

from agentenv.cli.preflight.aws_calls import Account, find_cluster
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings
from agentenv.config.constraints.network import PLATFORM_PODS
from agentenv.core.classes.pools.sizes import max_sandboxes
from agentenv.core.values.addresses import PLATFORM_ADDRESSES, PODS_PER_PREFIX, WARM_PREFIXES


def questions(settings: Settings) -> list[Question]:
    """Return the question about existing subnets. New subnets are sized by the address plan."""
    if settings.network.existing is None:
        return []
    needed = needed_addresses(settings)
    ids = list(settings.network.existing.private_subnet_ids)

    def answer(account: Account) -> Answer:
        subnets = account.cached(
            "subnets", lambda: account.list_all("ec2", "describe_subnets", "Subnets", SubnetIds=ids)
        )
        free = sum(subnet["AvailableIpAddressCount"] for subnet in subnets)
        if free >= needed:
            return Answer(free, ok=True, why="")
        if _cluster_exists(account, settings):
            return Answer(free, ok=True, why="the cluster exists, and already uses part of the addresses")
        why = "every pod needs an address, in blocks of sixteen a node; use larger subnets, or allow fewer sandboxes"
        return Answer(free, ok=False, why=why)

    return [Question("free addresses of the private subnets", needed, answer)]


def needed_addresses(settings: Settings) -> int:
    """Return the most addresses that are needed: blocks for pods with a spare one for each node, and the platform."""
    pods = PLATFORM_PODS + settings.capacity.headroom.pods + len(settings.workspaces)
    pods += sum(max_sandboxes(row) for row in settings.sandbox_classes)
    nodes = ceil(pods / settings.capacity.pods_per_node)
    blocks = nodes * (ceil(settings.capacity.pods_per_node / PODS_PER_PREFIX) + WARM_PREFIXES)
    return PLATFORM_ADDRESSES + nodes + blocks * PODS_PER_PREFIX


def _cluster_exists(account: Account, settings: Settings) -> bool:
    cluster = find_cluster(account, settings.cluster_name)
    return cluster is not None and (cluster.get("tags") or {}).get("environment") == settings.environment
