"""Room for nodes and pods in the subnets that stand already."""

from __future__ import annotations

from math import ceil

from agentenv.cli.preflight.aws_calls import Account, cluster_called
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings
from agentenv.config.constraints.network import PLATFORM_PODS
from agentenv.core.classes.pools.sizes import max_sandboxes
from agentenv.core.values.addresses import PLATFORM_ADDRESSES, PODS_PER_PREFIX, WARM_PREFIXES


def questions(settings: Settings) -> list[Question]:
    """Whether the existing subnets have the addresses; those that are made were divided for it."""
    if settings.network.existing is None:
        return []
    wanted = addresses(settings)
    ids = list(settings.network.existing.private_subnet_ids)

    def ask(account: Account) -> Answer:
        found = account.once("subnets", lambda: account.all("ec2", "describe_subnets", "Subnets", SubnetIds=ids))
        free = sum(one["AvailableIpAddressCount"] for one in found)
        if free >= wanted:
            return Answer(free, ok=True, why="")
        if _there(account, settings):
            return Answer(free, ok=True, why="the cluster is there, and part of what it needs is in use by it")
        why = "every pod has an address, in blocks of sixteen a node; name larger subnets, or keep fewer sandboxes"
        return Answer(free, ok=False, why=why)

    return [Question("free addresses of the private subnets", wanted, ask)]


def addresses(settings: Settings) -> int:
    """The addresses of everything at its most: pods by whole blocks, a spare one a node, and the platform's own."""
    pods = PLATFORM_PODS + settings.capacity.headroom.pods + len(settings.workspaces)
    pods += sum(max_sandboxes(one) for one in settings.sandbox_classes)
    nodes = ceil(pods / settings.capacity.pods_per_node)
    blocks = nodes * (ceil(settings.capacity.pods_per_node / PODS_PER_PREFIX) + WARM_PREFIXES)
    return PLATFORM_ADDRESSES + nodes + blocks * PODS_PER_PREFIX


def _there(account: Account, settings: Settings) -> bool:
    found = cluster_called(account, settings.cluster_name)
    return found is not None and (found.get("tags") or {}).get("environment") == settings.environment
