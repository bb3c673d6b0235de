"""COST: what bounds spending: quotas, pools' caps, ends of sandboxes, budgets that tell somebody."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.core.classes.names import MODE_LABEL, WORKSPACE_LABEL
from agentenv.policies.rules.registry import GRAPH, Outcome, Scope, fail, not_applicable, objects, rule, unknown
from agentenv.policies.view.fields import UNKNOWN, Field, number_or_unknown, scalar, sets_no_limit
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject, holds_objects
from agentenv.policies.view.tenants.sandbox_namespaces import AGENTS, EXTENSIONS, SandboxNamespace, sandbox_namespaces

BUDGET = "aws:budgets/budget:Budget"
COST_TAG = "aws:costexplorer/costAllocationTag:CostAllocationTag"
# A stack that has one of these looks after its costs, and is then asked for the rest
COST_TYPES = (
    BUDGET,
    COST_TAG,
    "aws:costexplorer/anomalyMonitor:AnomalyMonitor",
    "aws:bcmdata/export:Export",
    "aws:cur/reportDefinition:ReportDefinition",
    "agent-environment:index:CostControls",
)
# Of each row, one key is enough
BOUNDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("a number of pods", frozenset({"pods", "count/pods", "count/sandboxes.agents.x-k8s.io"})),
    ("cpu", frozenset({"cpu", "requests.cpu", "limits.cpu"})),
    ("memory", frozenset({"memory", "requests.memory", "limits.memory"})),
)

ENDING: Scope[KubernetesObject] = Scope(
    "Sandbox and SandboxClaim",
    holds_objects,
    lambda resource: [
        one for one in resource.objects if one.is_a(AGENTS, "Sandbox") or one.is_a(EXTENSIONS, "SandboxClaim")
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
    """All quotas of a namespace together; each bounds what it names."""
    for room, quotas, unsure in _within(graph, "ResourceQuota"):
        hard = [one.at("spec", "hard") for one in quotas]
        keys = {key for field in hard for key, _ in field.entries()}
        lacks = [name for name, enough in BOUNDS if not enough & keys]
        if not lacks:
            continue
        if unsure is not None or any(field.unknown for field in hard):
            yield unknown(room.field, "whether a quota bounds it is not known yet")
        else:
            place = hard[0] if hard else room.field
            yield fail(place, f"no quota bounds {', '.join(lacks)} here")


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
    """One for containers, with a limit for memory and cpu: a default, or a maximum, which is the default then."""
    for room, ranges, unsure in _within(graph, "LimitRange"):
        rows = [row for one in ranges for row in one.at("spec", "limits").elements()]
        if any(_bounds_containers(row) for row in rows):
            continue
        if unsure is not None or any(row.unknown for row in rows):
            yield unknown(room.field, "whether a limit range holds here is not known yet")
        else:
            yield fail(room.field, "no limit range gives containers their limits here")


def _bounds_containers(row: Field) -> bool:
    limits = [
        row.at("default", what) if row.at("max", what).missing else row.at("max", what) for what in ("cpu", "memory")
    ]
    return row.at("type").raw == "Container" and not any(sets_no_limit(one) for one in limits)


def _within(
    graph: Graph, kind: str
) -> Iterator[tuple[SandboxNamespace, list[KubernetesObject], KubernetesObject | None]]:
    """Each namespace that the stack makes for sandboxes, what of that kind is in it, and one that may be."""
    things = graph.objects("", kind)
    for room in sandbox_namespaces(graph):
        if room.declaration is not None:
            where = [(thing, room.contains(thing, graph)) for thing in things]
            unsure = [thing for thing, held in where if held is None]
            yield room, [thing for thing, held in where if held], unsure[0] if unsure else None


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
    """Each pool by itself."""
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
    """Members of all pools against the smallest bound of pods or sandboxes."""
    pools = graph.objects(EXTENSIONS, "SandboxWarmPool")
    for room, quotas, _ in _within(graph, "ResourceQuota"):
        members = [one.at("spec", "replicas") for one in pools if room.contains(one, graph)]
        for one in quotas:
            for key in sorted(BOUNDS[0][1]):
                bound = one.at("spec", "hard", key)
                if bound.missing:
                    continue
                numbers = [1 if field.missing else number_or_unknown(field) for field in (*members, bound)]
                *wanted, most = (0 if one is None or one is UNKNOWN else one for one in numbers)
                if UNKNOWN in numbers:
                    yield unknown((*members, bound)[numbers.index(UNKNOWN)])
                elif sum(wanted) > most:
                    yield fail(bound, "the pools of the namespace have more members than it admits")


@rule(
    id="COST-09",
    title="Sandboxes have an expiry",
    severity="Medium",
    why="A forgotten sandbox costs money until somebody finds it.",
    fix="Set shutdownTime, or ttlSecondsAfterFinished in the lifecycle of a claim. Suspend sandboxes that have to"
    " stay.",
    applies_to=ENDING,
    defaults="A sandbox runs forever by default (agent-sandbox v1.0.3).",
)
def shutdown(thing: KubernetesObject) -> Iterator[Outcome]:
    """A user's workspace ends when its user does, and is suspended meanwhile: it says so by its mode. One that the
    stack file declares ends when it is removed from there."""
    if thing.patch or thing.at("spec", "operatingMode").raw == "Suspended":
        return
    settings = thing.context.settings
    declared = {seat.name for seat in settings.workspaces} if settings is not None else set[str]()
    if thing.kind == "Sandbox" and thing.at("metadata", "labels", WORKSPACE_LABEL).raw in declared:
        yield not_applicable(thing.at("spec", "shutdownTime"), "the stack file declares it")
        return
    claim = thing.kind == "SandboxClaim"
    pod = ("additionalPodMetadata",) if claim else ("podTemplate", "metadata")
    if thing.at("spec", *pod, "labels", MODE_LABEL).raw == "user":
        return
    place = thing.at("spec", "lifecycle") if claim else thing.at("spec")
    ends = [place.at("shutdownTime"), place.at("ttlSecondsAfterFinished")]
    if any(end.known for end in ends):
        return
    if unsure := [end for end in ends if end.unknown]:
        yield unknown(unsure[0])
    else:
        yield fail(ends[0], "nothing ends it")


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
    """Every budget; and that there is one, in a stack that looks after its costs or has a cap."""
    budgets, cap = graph.of_type(BUDGET), graph.context.monthly_cap
    root = Field("", "", {})
    if not budgets and (cap is not None or graph.of_type(*COST_TYPES)):
        yield fail(root, "no budget watches what the environment costs")
    elif not budgets:
        yield not_applicable(root, "nothing in this stack looks after its costs")
    for one in budgets:
        rows = one.at("notifications")
        heard = [row for row in rows.elements() if row.unknown or _told(row)]
        if not heard:
            yield fail(rows, "the budget tells nobody")
        elif all(row.unknown for row in heard):
            yield unknown(heard[0])


def _told(row: Field) -> bool:
    ways = ("subscriberEmailAddresses", "subscriberSnsTopicArns")
    return any(row.at(way).elements() for way in ways)


@rule(
    id="COST-19",
    title="A budget is within the cap of the environment",
    severity="High",
    why="A budget above the cap sends no alert when the cap is exceeded.",
    fix="Set limitAmount to at most `monthlyCap` of the packs, or raise the cap in a separate change.",
    applies_to=GRAPH,
)
def budget_cap(graph: Graph) -> Iterator[Outcome]:
    """Monthly budgets of costs, as that is what the cap is."""
    cap = graph.context.monthly_cap
    for one in graph.of_type(BUDGET) if cap is not None else ():
        amount = one.at("limitAmount")
        if one.at("timeUnit").raw != "MONTHLY" or one.at("budgetType").raw != "COST":
            continue
        number = number_or_unknown(amount)
        if number is UNKNOWN:
            yield unknown(amount)
        elif cap is not None and number is not None and number > cap:
            yield fail(amount, f"the budget is {number:g} and the cap {cap:g}")


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
    """In a stack that looks after its costs; one that is said to be inactive anywhere."""
    rows = graph.of_type(COST_TAG)
    root = Field("", "", {})
    for row in rows:
        if row.at("status").unknown:
            yield unknown(row.at("status"))
        elif row.at("status").raw != "Active":
            yield fail(row.at("status"), "the tag is on no bill")
    named = {scalar(row.at("tagKey")) for row in rows}
    lacks = [key for key in graph.context.required_tags if key not in named]
    settings = graph.context.settings
    if not graph.of_type(*COST_TYPES):
        yield not_applicable(root, "nothing in this stack looks after its costs")
    elif lacks and settings is not None and settings.cost.cost_tags == "active":
        yield not_applicable(root, "the account that pays has activated them")
    elif lacks and (unsure := [row for row in rows if row.at("tagKey").unknown]):
        yield unknown(unsure[0].at("tagKey"))
    elif lacks:
        yield fail(root, f"costs are not split by {', '.join(lacks)}")
