"""COST rules about limits: quotas, sizes of warm pools, expiry of sandboxes, budgets and cost tags."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.core.classes.names import MODE_LABEL, WORKSPACE_LABEL
from agentenv.policies.rules.registry import GRAPH, Outcome, Scope, fail, forbid, not_applicable, objects, rule, unknown
from agentenv.policies.view.fields import UNKNOWN, Field, number_or_unknown, scalar, sets_no_limit
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject, holds_objects
from agentenv.policies.view.tenants.sandbox_namespaces import AGENTS, EXTENSIONS, SandboxNamespace, sandbox_namespaces

BUDGET = "aws:budgets/budget:Budget"
COST_TAG = "aws:costexplorer/costAllocationTag:CostAllocationTag"
# A stack with one of these manages its costs, and must then have the others
COST_TYPES = (
    BUDGET,
    COST_TAG,
    "aws:costexplorer/anomalyMonitor:AnomalyMonitor",
    "aws:bcmdata/export:Export",
    "aws:cur/reportDefinition:ReportDefinition",
    "agent-environment:index:CostControls",
)
# A quota needs one key of each row
QUOTA_KEYS: tuple[tuple[str, frozenset[str]], ...] = (
    ("a number of pods", frozenset({"pods", "count/pods", "count/sandboxes.agents.x-k8s.io"})),
    ("cpu", frozenset({"cpu", "requests.cpu", "limits.cpu"})),
    ("memory", frozenset({"memory", "requests.memory", "limits.memory"})),
)

EXPIRING: Scope[KubernetesObject] = Scope(
    "Sandbox and SandboxClaim",
    holds_objects,
    lambda resource: [
        item for item in resource.objects if item.is_a(AGENTS, "Sandbox") or item.is_a(EXTENSIONS, "SandboxClaim")
    ],
)


@rule(
    id="COST-02",
    title="Namespaces of sandboxes have a ResourceQuota",
    severity="High",
    why="Programs create claims. One in a loop can use the whole cluster, and the nodes that are bought for it.",
    fix="Add a ResourceQuota for pods, cpu and memory.",
    equivalents={"Kyverno": ("add-ns-quota",)},
    applies_to=GRAPH,
    defaults="No limit without a quota (Kubernetes, resource quotas).",
)
def quota(graph: Graph) -> Iterator[Outcome]:
    """Check all quotas of a namespace together."""
    for namespace, quotas, possible in _in_sandbox_namespaces(graph, "ResourceQuota"):
        hard = [quota.at("spec", "hard") for quota in quotas]
        keys = {key for field in hard for key, _ in field.entries()}
        missing = [name for name, sufficient in QUOTA_KEYS if not sufficient & keys]
        if not missing:
            continue
        if possible is not None or any(field.unknown for field in hard):
            yield unknown(namespace.field, "whether it has a quota is not known yet")
        else:
            yield fail(hard[0] if hard else namespace.field, f"no quota limits {', '.join(missing)} here")


@rule(
    id="COST-06",
    title="Namespaces of sandboxes have default limits",
    severity="Medium",
    why="A container without limits can use a whole node, at the expense of others.",
    fix="Add a LimitRange of type Container with default and defaultRequest.",
    equivalents={"Kyverno": ("add-ns-quota",)},
    applies_to=GRAPH,
    defaults="No limits without a LimitRange (Kubernetes, limit ranges).",
)
def limit_range(graph: Graph) -> Iterator[Outcome]:
    """Check for a LimitRange of containers with limits for memory and cpu: a default, or a maximum."""
    for namespace, ranges, possible in _in_sandbox_namespaces(graph, "LimitRange"):
        rows = [row for limit_range in ranges for row in limit_range.at("spec", "limits").elements()]
        if any(_limits_containers(row) for row in rows):
            continue
        if possible is not None or any(row.unknown for row in rows):
            yield unknown(namespace.field, "whether it has a LimitRange is not known yet")
        else:
            yield fail(namespace.field, "no LimitRange sets limits of containers here")


def _limits_containers(row: Field) -> bool:
    names = ("cpu", "memory")
    limits = [row.at("default", name) if row.at("max", name).missing else row.at("max", name) for name in names]
    return row.at("type").raw == "Container" and not any(map(sets_no_limit, limits))


def _in_sandbox_namespaces(
    graph: Graph, kind: str
) -> Iterator[tuple[SandboxNamespace, list[KubernetesObject], KubernetesObject | None]]:
    """Yield each declared namespace of sandboxes, its objects of a kind, and an object that may be in it."""
    objects = graph.objects("", kind)
    for namespace in sandbox_namespaces(graph):
        if namespace.declaration is not None:
            answers = [(item, namespace.contains(item, graph)) for item in objects]
            possible = [item for item, answer in answers if answer is None]
            yield namespace, [item for item, answer in answers if answer], possible[0] if possible else None


@rule(
    id="COST-03",
    title="Warm pools are within the cap",
    severity="High",
    why="Idle warm sandboxes cost money. One zero too many can cost a month's budget.",
    fix="Lower spec.replicas, or raise `poolCap` of the packs in a separate change.",
    applies_to=objects(EXTENSIONS, "SandboxWarmPool"),
    defaults="One sandbox by default (agent-sandbox v1.0.3, v1beta1 types).",
)
def pool_cap(pool: KubernetesObject) -> Iterator[Outcome]:
    """Check each pool."""
    replicas, cap = pool.at("spec", "replicas"), pool.context.pool_cap
    if replicas.unknown:
        yield unknown(replicas)
    elif (replicas.number or 0) > cap:
        yield fail(replicas, f"the pool has {int(replicas.number or 0)} warm sandboxes; the cap is {cap}")


@rule(
    id="COST-18",
    title="The pools of a namespace fit its quota",
    severity="Medium",
    why="A pool that cannot be filled takes quota away from claims, and reports no error.",
    fix="Raise the quota of pods above the total size of the pools, or reduce the pools.",
    applies_to=GRAPH,
)
def pools_fit(graph: Graph) -> Iterator[Outcome]:
    """Compare the total size of the pools with each limit for pods or sandboxes."""
    pools = graph.objects(EXTENSIONS, "SandboxWarmPool")
    for namespace, quotas, _ in _in_sandbox_namespaces(graph, "ResourceQuota"):
        sizes = [pool.at("spec", "replicas") for pool in pools if namespace.contains(pool, graph)]
        for quota in quotas:
            for key in sorted(QUOTA_KEYS[0][1]):
                limit = quota.at("spec", "hard", key)
                if limit.missing:
                    continue
                numbers = [1 if field.missing else number_or_unknown(field) for field in (*sizes, limit)]
                *replicas, most = (0 if number is None or number is UNKNOWN else number for number in numbers)
                if UNKNOWN in numbers:
                    yield unknown((*sizes, limit)[numbers.index(UNKNOWN)])
                elif sum(replicas) > most:
                    yield fail(limit, "the pools of the namespace have more sandboxes than it admits")


@rule(
    id="COST-09",
    title="Sandboxes have an expiry",
    severity="Medium",
    why="A forgotten sandbox costs money until somebody finds it.",
    fix="Set shutdownTime, or ttlSecondsAfterFinished in the lifecycle of a claim. Suspend sandboxes that have to"
    " stay.",
    applies_to=EXPIRING,
    defaults="A sandbox runs forever by default (agent-sandbox v1.0.3).",
)
def expiry(item: KubernetesObject) -> Iterator[Outcome]:
    """Check for an expiry. The workspace of a user, and one that the stack file declares, needs none."""
    if item.patch or item.at("spec", "operatingMode").raw == "Suspended":
        return
    settings = item.context.settings
    declared = {seat.name for seat in settings.workspaces} if settings is not None else set[str]()
    if item.kind == "Sandbox" and item.at("metadata", "labels", WORKSPACE_LABEL).raw in declared:
        yield not_applicable(item.at("spec", "shutdownTime"), "the stack file declares it")
        return
    claim = item.kind == "SandboxClaim"
    pod = ("additionalPodMetadata",) if claim else ("podTemplate", "metadata")
    if item.at("spec", *pod, "labels", MODE_LABEL).raw == "user":
        return
    lifecycle = item.at("spec", "lifecycle") if claim else item.at("spec")
    fields = [lifecycle.at("shutdownTime"), lifecycle.at("ttlSecondsAfterFinished")]
    if any(field.known for field in fields):
        return
    if unknown_fields := [field for field in fields if field.unknown]:
        yield unknown(unknown_fields[0])
    else:
        yield fail(fields[0], "it has no expiry")


@rule(
    id="COST-07",
    title="A budget sends alerts before it is spent",
    severity="High",
    why="Without subscribers, nobody notices that a budget is exceeded.",
    fix="Add notifications with subscribers to the budget, one of them below 100% or for the forecast.",
    applies_to=GRAPH,
    defaults="A budget has no notifications by default (AWS Budgets API reference, CreateBudget).",
)
def budget(graph: Graph) -> Iterator[Outcome]:
    """Check every budget, and that there is one if the stack manages its costs or has a cap."""
    budgets, cap = graph.of_type(BUDGET), graph.context.monthly_cap
    root = Field("", "", {})
    if not budgets and (cap is not None or graph.of_type(*COST_TYPES)):
        yield fail(root, "the environment has no budget")
    elif not budgets:
        yield not_applicable(root, "the stack does not manage its costs")
    for each in budgets:
        rows = each.at("notifications")
        subscribed = [row for row in rows.elements() if row.unknown or _has_subscribers(row)]
        if not subscribed:
            yield fail(rows, "the budget has no subscribers")
        elif all(row.unknown for row in subscribed):
            yield unknown(subscribed[0])


def _has_subscribers(row: Field) -> bool:
    return any(row.at(key).elements() for key in ("subscriberEmailAddresses", "subscriberSnsTopicArns"))


@rule(
    id="COST-19",
    title="A budget is within the cap of the environment",
    severity="High",
    why="A budget above the cap sends no alert when the cap is exceeded.",
    fix="Set limitAmount to at most `monthlyCap` of the packs, or raise the cap in a separate change.",
    applies_to=GRAPH,
)
def budget_cap(graph: Graph) -> Iterator[Outcome]:
    """Check monthly budgets of costs, because the cap is one."""
    cap = graph.context.monthly_cap
    for each in graph.of_type(BUDGET) if cap is not None else ():
        amount = each.at("limitAmount")
        if each.at("timeUnit").raw != "MONTHLY" or each.at("budgetType").raw != "COST":
            continue
        number = number_or_unknown(amount)
        if number is UNKNOWN:
            yield unknown(amount)
        elif cap is not None and number is not None and number > cap:
            yield fail(amount, f"the budget is {number:g}, above the cap of {cap:g}")


@rule(
    id="COST-08",
    title="Cost allocation tags are active",
    severity="Medium",
    why="A tag is in no bill before it is activated, and never for the time before.",
    fix="Add a CostAllocationTag with the status Active for each of environment, component, owner and cost-center. If"
    " the paying account has activated them, set cost.costTags to active.",
    applies_to=GRAPH,
    defaults="No tag is active by default (AWS Billing user guide, user-defined cost allocation tags).",
)
def cost_tags(graph: Graph) -> Iterator[Outcome]:
    """Check declared tags in any stack, and for missing ones if the stack manages its costs."""
    rows = graph.of_type(COST_TAG)
    root = Field("", "", {})
    for row in rows:
        yield from forbid(row.at("status"), lambda value: value != "Active", "the tag is not active")
    named = {scalar(row.at("tagKey")) for row in rows}
    missing = [key for key in graph.context.required_tags if key not in named]
    settings = graph.context.settings
    if not graph.of_type(*COST_TYPES):
        yield not_applicable(root, "the stack does not manage its costs")
    elif missing and settings is not None and settings.cost.cost_tags == "active":
        yield not_applicable(root, "the paying account has activated them")
    elif missing and (unknown_rows := [row for row in rows if row.at("tagKey").unknown]):
        yield unknown(unknown_rows[0].at("tagKey"))
    elif missing:
        yield fail(root, f"costs cannot be grouped by {', '.join(missing)}")
