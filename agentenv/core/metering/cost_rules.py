"""Recording rules of costs per minute: nodes, sandboxes, and shares of common costs.

Pool, idle and fixed costs are separate from the cost of an owner's sandboxes. The series of `sandbox:dollars:per_hour`
add up to the total cost.
"""

from __future__ import annotations

from decimal import Decimal

from agentenv.core.attribution.types import CORE_WEIGHT
from agentenv.core.metering.exporters import TYPE, ZONE, series_label
from agentenv.core.metering.rule import GIB, SANDBOXES, Rule, named, one_each, shared_out
from agentenv.core.metering.tariff import HOURS_A_MONTH, Tariff, number
from agentenv.core.nodes.tiers import CAPACITY_LABEL, TIER_LABEL

NODES = (
    Rule(
        "sandbox:node:info",
        one_each(
            "node",
            "max by (node, instance_type, zone, capacity_type, tier) ("
            + named(
                "kube_node_labels",
                instance_type=series_label(TYPE),
                zone=series_label(ZONE),
                capacity_type=series_label(CAPACITY_LABEL),
                tier=series_label(TIER_LABEL),
            )
            + ")",
        ),
        "what each node is",
    ),
    Rule(
        "sandbox:node_dollars:per_hour",
        "(sandbox:node:info * on (instance_type, zone, capacity_type) group_left ()\n"
        "  max by (instance_type, zone, capacity_type)"
        " (karpenter_cloudprovider_instance_type_offering_price_estimate))\n"
        "or (sandbox:node:info * on (node) group_left () max by (node) (node_total_hourly_cost))",
        "what each node costs: as Karpenter reads it, Spot at the price of the zone; of others as OpenCost has it",
    ),
    Rule(
        "sandbox:node_saved_dollars:per_hour",
        'sandbox:node:info{capacity_type="spot"} * on (instance_type, zone) group_left ()\n'
        "  max by (instance_type, zone)"
        ' (karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type="on-demand"})\n'
        "- on (node) group_left () sandbox:node_dollars:per_hour",
        "what each Spot node costs less than on demand",
    ),
    Rule(
        "sandbox:node_weight:sum",
        f'{CORE_WEIGHT} * max by (node) (kube_node_status_capacity{{resource="cpu"}})\n'
        f'+ max by (node) (kube_node_status_capacity{{resource="memory"}}) / {GIB}',
        "what each node has, a core weighing as much as nine gigabytes: as AWS splits a node's price among pods",
    ),
)


def _more(requested: str, used: str) -> str:
    """Return the maximum of requests and usage of a sandbox; one of them may be missing."""
    return f"(({requested} >= on (namespace, pod) {used}) or {used} or {requested})"


def _requests(resource: str) -> str:
    return (
        "sum by (namespace, pod) (max by (namespace, pod, container)"
        f' (kube_pod_container_resource_requests{{{SANDBOXES},resource="{resource}"}}))'
    )


HELD = (
    Rule("sandbox:pod_cpu_cores:requested", _requests("cpu"), "cores set aside for each sandbox"),
    Rule("sandbox:pod_memory_bytes:requested", _requests("memory"), "memory set aside for each sandbox"),
    Rule(
        "sandbox:pod_weight:sum",
        "(\n"
        f"  {CORE_WEIGHT} * {_more('sandbox:pod_cpu_cores:requested', 'sandbox:pod_cpu_seconds:rate1m')}\n"
        f"  + {_more('sandbox:pod_memory_bytes:requested', 'sandbox:pod_memory_bytes:avg1m')} / {GIB}\n"
        ") * on (namespace, pod) group_left (node) sandbox:pod_node:info",
        "what each sandbox holds of its node: what was set aside for it or what it uses, whichever is more",
    ),
    Rule(
        "sandbox:node_weight:divisor",
        "(sandbox:node_weight:sum >= on (node) sum by (node) (sandbox:pod_weight:sum))\n"
        "or sum by (node) (sandbox:pod_weight:sum) or sandbox:node_weight:sum",
        "what a node's price is divided by: what it has, or what is held of it where that is more,"
        " so that its pods never cost more than the node",
    ),
    Rule(
        "sandbox:pod_dollars:per_hour",
        "sandbox:pod_weight:sum / on (node) group_left () sandbox:node_weight:divisor\n"
        "* on (node) group_left () max by (node) (sandbox:node_dollars:per_hour)",
        "what each sandbox costs of its node",
    ),
    *shared_out("dollars", "per_hour", "what a sandbox costs"),
)

USERS = (
    Rule(
        "sandbox:user_dollars:per_hour",
        "sum by (user, class) (sandbox:owner_dollars:per_hour)",
        "what the sandboxes of each user cost",
    ),
    Rule(
        "sandbox:user_storage_bytes:last",
        "sum by (user) (max by (persistentvolume) (agentenv_volume_bytes)\n"
        "  * on (persistentvolume) group_left (user) sandbox:volume_owner:info)",
        "what each user keeps, suspended or not",
    ),
    Rule(
        "sandbox:user:present",
        'group by (user) (sandbox:pod_owner:info{held_by="owner"}) or group by (user) (sandbox:volume_owner:info)',
        "who has a sandbox or a home",
    ),
)

_SANDBOX_NODES = (
    'sandbox:node_dollars:per_hour{tier!=""}\n'
    "or (sandbox:node_dollars:per_hour and on (node) group by (node) (sandbox:pod_node:info))"
)


def _hourly(monthly: Decimal) -> str:
    """Return a monthly price per hour."""
    return number((monthly / HOURS_A_MONTH).quantize(Decimal("1e-12")))


def lines(tariff: Tariff) -> tuple[Rule, ...]:
    """Return the rules of the total cost, with a series for each share."""
    line = "sandbox:dollars:per_hour"
    return (
        Rule(
            "sandbox:user_storage_dollars:per_hour",
            f"sandbox:user_storage_bytes:last / {GIB} * {_hourly(tariff.storage)}",
            "what each user's files cost",
        ),
        Rule(line, "sum(sandbox:owner_dollars:per_hour) or vector(0)", "sandboxes somebody has", {"share": "owners"}),
        Rule(
            line,
            "sum(sandbox:user_storage_dollars:per_hour) or vector(0)",
            "files somebody keeps",
            {"share": "storage"},
        ),
        Rule(line, "sum(sandbox:pool_dollars:per_hour) or vector(0)", "warm slots", {"share": "pool"}),
        Rule(
            line, "sum(sandbox:nobody_dollars:per_hour) or vector(0)", "sandboxes without an owner", {"share": "nobody"}
        ),
        Rule(
            line,
            f"(sum({_SANDBOX_NODES}) or vector(0)) - (sum(sandbox:pod_dollars:per_hour) or vector(0))",
            "capacity of sandbox nodes that no sandbox holds, and the nodes' own pods",
            {"share": "idle"},
        ),
        Rule(
            "sandbox:fixed_dollars:per_hour",
            f'sum(sandbox:node_dollars:per_hour{{instance_type!=""}} unless on (node) ({_SANDBOX_NODES})) or vector(0)',
            "nodes that no sandbox runs on; controllers on Fargate, which says no type, are among what is estimated",
            {"part": "nodes of the platform"},
        ),
        *(
            Rule(
                "sandbox:fixed_dollars:per_hour",
                f"vector({_hourly(dollars)})",
                "as the settings have it estimated",
                {"part": part},
            )
            for part, dollars in sorted(tariff.fixed.items())
        ),
        Rule(line, "sum(sandbox:fixed_dollars:per_hour)", "what is there for everybody", {"share": "fixed"}),
    )


def shares() -> tuple[Rule, ...]:
    """Return the rules of each user's shares of common costs."""
    share, mine = "sandbox:user_share_dollars:per_hour", "sandbox:user_dollars:per_hour"
    return (
        Rule(
            share,
            f"sum by (user) ({mine}) / on () group_left () (sum({mine}) > 0)\n"
            '* on () group_left () sum(sandbox:dollars:per_hour{share="idle"})',
            "idle room, by what one's own sandboxes cost",
            {"share": "idle"},
        ),
        Rule(
            share,
            f"sum by (user) ({mine} / on (class) group_left () (sum by (class) ({mine}) > 0)\n"
            "  * on (class) group_left () sum by (class) (sandbox:pool_dollars:per_hour))",
            "warm slots of the classes that one uses, likewise",
            {"share": "pool"},
        ),
        Rule(
            share,
            "sandbox:user:present / on () group_left () count(sandbox:user:present)\n"
            '* on () group_left () sum(sandbox:dollars:per_hour{share="fixed"})',
            "fixed cost, divided equally among users",
            {"share": "fixed"},
        ),
    )


def bounds(tariff: Tariff) -> tuple[Rule, ...]:
    """Return the rules of budgets and caps."""
    bounds = {
        "sandbox:monthly_budget:dollars": tariff.monthly_budget,
        "sandbox:per_user_cap:dollars": tariff.per_user_cap,
    }
    return tuple(
        Rule(record, f"vector({number(amount)})", "as the settings have it")
        for record, amount in bounds.items()
        if amount is not None
    )
