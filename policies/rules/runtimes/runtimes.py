"""RT rules about RuntimeClasses and tiers: whether a sandbox is isolated from its node as its tier requires."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, rule, unknown
from agentenv.policies.view.cluster.fargate import on_fargate
from agentenv.policies.view.cluster.runtime_classes import (
    EKS_RUNTIME_CLASSES,
    HANDLERS,
    handler_strength,
    isolation_strength,
    runtime_classes,
    unnamed_runtime_class,
)
from agentenv.policies.view.fields import Field, scalar
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.tenants.tenants import (
    TIER_STRENGTH,
    Tenant,
    parent_of,
    service_account_of,
    tenants,
    tier_of,
)

ASSOCIATION = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
GVISOR = TIER_STRENGTH["standard"]


@rule(
    id="RT-01",
    title="The runtime of a sandbox isolates as strongly as its tier requires",
    severity="Critical",
    why="Without its RuntimeClass, a sandbox of tier standard or untrusted shares the kernel of the node. One kernel"
    " vulnerability then affects all tenants there.",
    fix="Set runtimeClassName to gvisor for tier standard, and to kata or isolated-sandbox for tier untrusted.",
    applies_to=GRAPH,
    defaults="A pod without runtimeClassName uses the default handler, which is runc (Kubernetes documents, Runtime"
    " Class). A pod on Fargate has its own virtual machine (EKS documents).",
)
def runtime_matches_tier(graph: Graph) -> Iterator[Outcome]:
    """Compare the handler of the RuntimeClass if the stack has it, else its name."""
    for tenant in tenants(graph):
        tier, name = tier_of(graph, tenant), tenant.pod.at("runtimeClassName")
        if tier.missing or tier.raw == "verified":
            continue
        actual, required = isolation_strength(graph, tenant.pod), _tier_strength(tier)
        fargate = on_fargate(graph, tenant)
        if fargate.answer or actual == TIER_STRENGTH["untrusted"]:
            continue
        if required is not None and actual is not None and actual >= required:
            continue
        if tier.unknown:
            yield unknown(tier)
        elif required is None:
            continue
        elif fargate.answer is None and fargate.reason is not None:
            yield unknown(fargate.reason)
        elif actual is None:
            yield unknown(name, "the handler of this RuntimeClass is not known")
        else:
            problem = "no RuntimeClass" if name.missing else "a RuntimeClass that is weaker"
            yield fail(name, f"is of tier {tier.raw} and has {problem}")


@rule(
    id="RT-02",
    title="RuntimeClasses exist, isolate their pods, and select their nodes",
    severity="High",
    why="A pod with a missing RuntimeClass never starts. The handler runc does not isolate from the kernel. Without"
    " scheduling, pods are placed on nodes that lack the handler.",
    fix="Declare the RuntimeClass with a handler that isolates, and with the node selector and tolerations of its"
    " nodes.",
    applies_to=GRAPH,
    defaults="Without scheduling, every node is expected to have the handler (Kubernetes API reference, RuntimeClass).",
)
def runtime_classes_of_sandboxes(graph: Graph) -> Iterator[Outcome]:
    """Check the classes of the stack. A missing one is a failure only if the stack creates others."""
    classes = runtime_classes(graph)
    used: set[object] = set()
    for tenant in tenants(graph):
        name = tenant.pod.at("runtimeClassName")
        used.add(scalar(name))
        if name.unknown and classes:
            yield unknown(name)
        if (
            not (classes or unnamed_runtime_class(graph))
            or not isinstance(name.raw, str)
            or name.raw in classes
            or name.raw in {*EKS_RUNTIME_CLASSES, ""}
        ):
            continue
        if unnamed := unnamed_runtime_class(graph):
            yield unknown(unnamed, "whether it is the RuntimeClass of a sandbox is not known yet")
        else:
            yield fail(name, f"there is no RuntimeClass '{name.raw}' in the stack")
    for name, runtime_class in classes.items():
        for_sandboxes = name in used or any(name.startswith(prefix) for prefix in HANDLERS)
        handler = runtime_class.at("handler")
        if handler.unknown and for_sandboxes:
            yield unknown(handler)
        strength = handler_strength(handler.raw)
        if not for_sandboxes and not strength:
            continue
        if strength == 0 and (name in used or handler_strength(name)):
            yield fail(handler, f"'{name}' runs containers on the node's kernel")
        for part in (runtime_class.at("scheduling"), runtime_class.at("scheduling", "nodeSelector")):
            if part.unknown:
                yield unknown(part)
                break
            if part.missing or part.raw == {}:
                yield fail(part, f"'{name}' does not select the nodes that have its handler")
                break


@rule(
    id="RT-03",
    title="Pods on Fargate have no RuntimeClass",
    severity="High",
    why="Fargate does not support RuntimeClasses. The pod never starts, or runs without the isolation that the class"
    " seems to add.",
    fix="Remove runtimeClassName from classes on Fargate. Each of their pods has its own virtual machine.",
    equivalents={"AWS": ("EKS documents: AWS Fargate considerations",)},
    applies_to=GRAPH,
)
def no_class_on_fargate(graph: Graph) -> Iterator[Outcome]:
    """Compare the selectors of Fargate profiles."""
    for tenant in tenants(graph):
        name, fargate = tenant.pod.at("runtimeClassName"), on_fargate(graph, tenant)
        if name.missing or name.raw == "" or fargate.answer is False:
            continue
        if name.unknown or fargate.answer is None:
            yield unknown(name if name.unknown or fargate.reason is None else fargate.reason)
        else:
            yield fail(name, "runs on Fargate, which has no RuntimeClasses")


@rule(
    id="RT-04",
    title="A sandbox declares its tier, and is isolated at least as strongly as its parent",
    severity="High",
    why="Without a tier, the isolation of a sandbox cannot be checked. A child that is isolated less lets its parent"
    " bypass its own isolation.",
    fix="Label the template's pods with sandbox.users.io/tier: verified, standard or untrusted, as strong as the"
    " parent's or stronger.",
    applies_to=GRAPH,
    defaults="A sandbox shares the node's kernel by default (agent-sandbox v1.0.3 sets no RuntimeClass).",
)
def tier_is_declared(graph: Graph) -> Iterator[Outcome]:
    """Check the label. A sandbox without a tier passes if its runtime isolates it anyway."""
    for tenant in tenants(graph):
        tier, actual = tier_of(graph, tenant), isolation_strength(graph, tenant.pod)
        if not tenant.pod.sandbox:
            continue
        if tier.known and _tier_strength(tier) is None:
            yield fail(tier, "is not a tier: verified, standard or untrusted")
        elif tier.missing and not on_fargate(graph, tenant).answer and not actual:
            if actual is None and tenant.pod.at("runtimeClassName").unknown:
                yield unknown(tenant.pod.at("runtimeClassName"))
            else:
                yield fail(tier, "has no tier, and shares its node's kernel")
        yield from _weaker_than_parent(graph, tenant, tier)


@rule(
    id="RT-05",
    title="Pods that cannot reach the Pod Identity agent have no Pod Identity association",
    severity="High",
    why="Pods under gVisor and on Fargate never get the credentials of their association. They call AWS with any other"
    " credentials that they find, such as the node's.",
    fix="Use IAM roles for service accounts (IRSA) for such a class instead of an association.",
    equivalents={"AWS": ("EKS documents: EKS Pod Identity considerations",)},
    applies_to=GRAPH,
)
def unreachable_agent(graph: Graph) -> Iterator[Outcome]:
    """Compare the namespace and service account of each association with the pods."""
    for association in graph.of_type(ASSOCIATION):
        namespace, account = association.at("namespace"), association.at("serviceAccount")
        for tenant in tenants(graph):
            matches = _equal(namespace, tenant.namespace), _equal(account, service_account_of(tenant.pod))
            strength, fargate = isolation_strength(graph, tenant.pod), on_fargate(graph, tenant)
            if False in matches or (fargate.answer is False and strength not in (GVISOR, None)):
                continue
            if not fargate.answer and strength != GVISOR:
                name = tenant.pod.at("runtimeClassName")
                yield unknown(name if fargate.reason is None else fargate.reason)
                break
            if None in matches:
                yield unknown(namespace if namespace.unknown else account)
            else:
                runtime = "on Fargate" if fargate.answer else "under gVisor"
                yield fail(association.root, f"is for a service account whose pods run {runtime}")
            break


def _weaker_than_parent(graph: Graph, tenant: Tenant, tier: Field) -> Iterator[Outcome]:
    parent = parent_of(graph, tenant)
    if parent.unknown:
        yield unknown(parent)
        return
    own = _tier_strength(tier) if tier.known else isolation_strength(graph, tenant.pod)
    for other in tenants(graph) if parent.known else []:
        if other.class_name != parent.raw or other.owner is tenant.owner:
            continue
        other_tier = tier_of(graph, other)
        strength = _tier_strength(other_tier) if other_tier.known else isolation_strength(graph, other.pod)
        if own is None or strength is None:
            yield unknown(tier if own is None else other_tier)
        elif own < strength:
            yield fail(tier, "is isolated less than its parent")
        else:
            continue
        return


def _tier_strength(tier: Field) -> int | None:
    return TIER_STRENGTH.get(tier.raw) if isinstance(tier.raw, str) else None


def _equal(field: Field, value: object) -> bool | None:
    if not isinstance(field.raw, str) or not isinstance(value, str):
        return None
    return field.raw == value
