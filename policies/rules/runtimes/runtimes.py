"""RT: what stands between a sandbox and its node, and whether it is as strong as its tier says."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, rule, unknown
from agentenv.policies.view.cluster.fargate import on_fargate
from agentenv.policies.view.cluster.runtime_classes import (
    HANDLERS,
    OF_EKS,
    of_handler,
    runtime_classes,
    strength,
    unnamed,
)
from agentenv.policies.view.fields import Field, scalar
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.tenants.tenants import STRENGTH, Tenant, account_of, parent_of, tenants, tier_of

ASSOCIATION = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
GVISOR = STRENGTH["standard"]


@rule(
    id="RT-01",
    title="A sandbox's wall is as strong as its tier says",
    severity="Critical",
    why="A sandbox of tier standard or untrusted without its RuntimeClass runs on the node's own kernel, where one hole"
    " in it is everybody's.",
    do="Set runtimeClassName to gvisor for tier standard, and to kata or isolated-sandbox for tier untrusted.",
    about=GRAPH,
    defaults="A pod without runtimeClassName runs under the runtime's default handler, which is runc (Kubernetes"
    " documents, Runtime Class). A pod on Fargate has a machine of its own (EKS documents).",
)
def wall_as_tier(graph: Graph) -> Iterator[Outcome]:
    """The handler decides, where the stack has the RuntimeClass; else its name."""
    for tenant in tenants(graph):
        tier, name = tier_of(graph, tenant), tenant.pod.at("runtimeClassName")
        if tier.missing or tier.raw == "verified":
            continue
        has, wants = strength(graph, tenant.pod), _strength_of(tier)
        where = on_fargate(graph, tenant)
        if where.answer or has == STRENGTH["untrusted"] or (wants is not None and has is not None and has >= wants):
            continue
        if tier.unknown:
            yield unknown(tier)
        elif wants is None:
            continue
        elif where.answer is None and where.because is not None:
            yield unknown(where.because)
        elif has is None:
            yield unknown(name, "what stands behind this RuntimeClass is not known")
        else:
            word = "no RuntimeClass" if name.missing else "a RuntimeClass that is weaker"
            yield fail(name, f"is of tier {tier.raw} and has {word}")


@rule(
    id="RT-02",
    title="A RuntimeClass exists, is no plain runc, and brings its pods to its nodes",
    severity="High",
    why="A pod of a RuntimeClass that is not there never starts, one whose handler is runc has no wall, and one without"
    " scheduling lands on nodes that do not have the handler.",
    do="Declare the RuntimeClass with the handler of its wall, and with the node selector and tolerations of its"
    " nodes.",
    about=GRAPH,
    defaults="Without scheduling every node is taken to have the handler (Kubernetes API reference, RuntimeClass).",
)
def runtime_class(graph: Graph) -> Iterator[Outcome]:
    """Missing ones only where the stack makes others: elsewhere they may be somebody else's to make."""
    classes = runtime_classes(graph)
    used: set[object] = set()
    for tenant in tenants(graph):
        name = tenant.pod.at("runtimeClassName")
        used.add(scalar(name))
        if name.unknown and classes:
            yield unknown(name)
        if (
            not (classes or unnamed(graph))
            or not isinstance(name.raw, str)
            or name.raw in classes
            or name.raw in {*OF_EKS, ""}
        ):
            continue
        if nobody := unnamed(graph):
            yield unknown(nobody, "whether it is the RuntimeClass of a sandbox is not known yet")
        else:
            yield fail(name, f"there is no RuntimeClass '{name.raw}' in the stack")
    for name, thing in classes.items():
        walls = name in used or any(name.startswith(begin) for begin in HANDLERS)
        handler = thing.at("handler")
        if handler.unknown and walls:
            yield unknown(handler)
        strong = of_handler(handler.raw)
        if not walls and not strong:
            continue
        if strong == 0 and (name in used or of_handler(name)):
            yield fail(handler, f"'{name}' runs containers on the node's kernel")
        for part in (thing.at("scheduling"), thing.at("scheduling", "nodeSelector")):
            if part.unknown:
                yield unknown(part)
                break
            if part.missing or part.raw == {}:
                yield fail(part, f"'{name}' does not say which nodes have it")
                break


@rule(
    id="RT-03",
    title="No RuntimeClass for a pod on Fargate",
    severity="High",
    why="Fargate knows no RuntimeClasses: the pod never starts, or whoever made it so relies on a wall that is not"
    " there.",
    do="Leave runtimeClassName out of classes on Fargate; each of their pods has a machine of its own.",
    equivalents={"AWS": ("EKS documents: AWS Fargate considerations",)},
    about=GRAPH,
)
def no_class_on_fargate(graph: Graph) -> Iterator[Outcome]:
    """By the selectors of profiles."""
    for tenant in tenants(graph):
        name, where = tenant.pod.at("runtimeClassName"), on_fargate(graph, tenant)
        if name.missing or name.raw == "" or where.answer is False:
            continue
        if name.unknown or where.answer is None:
            yield unknown(name if name.unknown or where.because is None else where.because)
        else:
            yield fail(name, "runs on Fargate, which has no RuntimeClasses")


@rule(
    id="RT-04",
    title="A sandbox says its tier, and is no weaker than its parent",
    severity="High",
    why="Nobody can hold a wall against a tier that is not said, and a child with a weaker wall is a way out for its"
    " parent.",
    do="Label the template's pods with sandbox.users.io/tier: verified, standard or untrusted, as strong as the"
    " parent's or stronger.",
    about=GRAPH,
    defaults="A sandbox has the node's kernel where nothing is said (agent-sandbox v1.0.3 sets no RuntimeClass).",
)
def tier_is_said(graph: Graph) -> Iterator[Outcome]:
    """A sandbox that says nothing and still has a wall of its own is left alone."""
    for tenant in tenants(graph):
        tier, has = tier_of(graph, tenant), strength(graph, tenant.pod)
        if not tenant.pod.sandbox:
            continue
        if tier.known and _strength_of(tier) is None:
            yield fail(tier, "is no tier: verified, standard or untrusted")
        elif tier.missing and not on_fargate(graph, tenant).answer and not has:
            if has is None and tenant.pod.at("runtimeClassName").unknown:
                yield unknown(tenant.pod.at("runtimeClassName"))
            else:
                yield fail(tier, "says no tier, and shares its node's kernel")
        yield from _weaker_than_parent(graph, tenant, tier)


@rule(
    id="RT-05",
    title="No Pod Identity where a pod cannot reach the agent",
    severity="High",
    why="Pods under gVisor and on Fargate never get the credentials of their association: what they call AWS with is"
    " whatever else they find, the node's role first of all.",
    do="Give such a class its role by its service account's token (IRSA) instead of an association.",
    equivalents={"AWS": ("EKS documents: EKS Pod Identity considerations",)},
    about=GRAPH,
)
def agent_out_of_reach(graph: Graph) -> Iterator[Outcome]:
    """By namespace and service account."""
    for association in graph.of_type(ASSOCIATION):
        space, account = association.at("namespace"), association.at("serviceAccount")
        for tenant in tenants(graph):
            here = _same(space, tenant.namespace), _same(account, account_of(tenant.pod))
            has, where = strength(graph, tenant.pod), on_fargate(graph, tenant)
            if False in here or (where.answer is False and has not in (GVISOR, None)):
                continue
            if not where.answer and has != GVISOR:
                name = tenant.pod.at("runtimeClassName")
                yield unknown(name if where.because is None else where.because)
                break
            if None in here:
                yield unknown(space if space.unknown else account)
            else:
                word = "on Fargate" if where.answer else "under gVisor"
                yield fail(association.root, f"is for an account whose pods run {word}")
            break


def _weaker_than_parent(graph: Graph, tenant: Tenant, tier: Field) -> Iterator[Outcome]:
    parent = parent_of(graph, tenant)
    if parent.unknown:
        yield unknown(parent)
        return
    mine = _strength_of(tier) if tier.known else strength(graph, tenant.pod)
    for other in tenants(graph) if parent.known else []:
        if other.class_name != parent.raw or other.owner is tenant.owner:
            continue
        said = tier_of(graph, other)
        theirs = _strength_of(said) if said.known else strength(graph, other.pod)
        if mine is None or theirs is None:
            yield unknown(tier if mine is None else said)
        elif mine < theirs:
            yield fail(tier, "is walled off less than its parent")
        else:
            continue
        return


def _strength_of(tier: Field) -> int | None:
    return STRENGTH.get(tier.raw) if isinstance(tier.raw, str) else None


def _same(said: Field, found: object) -> bool | None:
    if not isinstance(said.raw, str) or not isinstance(found, str):
        return None
    return said.raw == found
