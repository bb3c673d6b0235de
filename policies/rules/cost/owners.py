"""COST: whose everything is: tags of AWS resources and of what nodes start from, labels of sandboxes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, reduce
from pathlib import Path

from agentenv.core.classes.names import USER_LABEL
from agentenv.policies.rules.nodes.instances import INSTANCE_SOURCE
from agentenv.policies.rules.registry import GRAPH, Outcome, Scope, fail, objects, rule, unknown
from agentenv.policies.view.cluster.instances import INSTANCE, TEMPLATE, InstanceSource
from agentenv.policies.view.fields import Field, scalar
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject, Resource
from agentenv.policies.view.tenants.sandbox_namespaces import EXTENSIONS, sandbox_namespaces

STARTED = ("instance", "volume")
EBS = "ebs.csi.aws.com"
SCALING_GROUP = "aws:autoscaling/group:Group"
PROVIDER = "pulumi:providers:aws"
_TAGGABLE_FILE = Path(__file__).parents[2] / "taggable.txt"


@cache
def taggable_types() -> frozenset[str]:
    """Return the types that take tags as a mapping; the file is generated from the provider's SDK."""
    return frozenset(_TAGGABLE_FILE.read_text(encoding="utf-8").split())


TAGGED: Scope[Resource] = Scope(
    "every AWS resource that can carry tags",
    lambda kind: kind.startswith("aws:") and (kind in taggable_types() or kind == SCALING_GROUP),
    lambda resource: (resource,),
)


@rule(
    id="COST-01",
    title="AWS resources have the required tags",
    severity="High",
    why="The cost of a resource without tags is on no team's bill, and nobody dares to remove it.",
    fix="Add the tags environment, component, owner and cost-center. The components of this project take them as"
    " `ownership`.",
    applies_to=TAGGED,
    defaults="Only the `defaultTags` of the provider.",
)
def tags(resource: Resource, graph: Graph) -> Iterator[Outcome]:
    """Every key that is asked for, with something in it."""
    wanted = resource.context.required_tags
    given = resource.at("tags")
    if resource.type == SCALING_GROUP:
        yield from _of_group(given, wanted)
        return
    if lacks := _missing_keys(given, wanted):
        lacks = [key for key in lacks if key not in _default_tags(graph)]
    if given.unknown:
        yield unknown(given)
    elif lacks:
        yield fail(given, f"it has no tag {', '.join(lacks)}")


def _of_group(given: Field, wanted: tuple[str, ...]) -> Iterator[Outcome]:
    """A scaling group lists its tags, each with whether instances get it, too."""
    if given.holds_unknown():
        yield unknown(given)
        return
    passed = {scalar(one.at("key")) for one in given.elements() if one.at("propagateAtLaunch").raw is True}
    if lacks := [key for key in wanted if key not in passed]:
        yield fail(given, f"its instances get no tag {', '.join(lacks)}")


@rule(
    id="COST-04",
    title="Sandboxes have the required labels",
    severity="High",
    why="The ledger, and AWS's split cost allocation, use labels to assign the cost of a pod. Without them, its cost"
    " has no owner.",
    fix="Add `requiredLabels` of the packs to namespaces and pod templates of sandboxes, and the user to claims"
    f" (spec.additionalPodMetadata.labels, {USER_LABEL}).",
    applies_to=GRAPH,
)
def labels(graph: Graph) -> Iterator[Outcome]:
    """Namespaces with sandboxes, templates of sandboxes' pods, and claims."""
    wanted = graph.context.required_labels
    namespaces = [room.declaration.labels for room in sandbox_namespaces(graph) if room.declaration is not None]
    templates = [pod.labels for pod in graph.pods if pod.sandbox and not pod.patch]
    claims = [claim for claim in graph.objects(EXTENSIONS, "SandboxClaim") if not claim.patch]
    for field, keys in [
        *((field, wanted) for field in (*namespaces, *templates)),
        *((claim.at("spec", "additionalPodMetadata", "labels"), (USER_LABEL,)) for claim in claims),
    ]:
        if field.unknown:
            yield unknown(field)
        elif lacks := _missing_keys(field, keys):
            yield fail(field, f"it has no label {', '.join(lacks)}")


@rule(
    id="COST-05",
    title="Nodes and their disks have the required tags",
    severity="High",
    why="Most of the bill is for instances that are not in the stack. They have only the tags of the resource that"
    " starts them, and so do their disks.",
    fix="Set spec.tags of an EC2NodeClass, tagSpecifications for instance and volume of a launch template, and"
    " volumeTags of an instance.",
    applies_to=INSTANCE_SOURCE,
    defaults="Only Karpenter's own tags. The tags of a launch template itself do not apply to its instances (EC2 user"
    " guide).",
)
def started(machine: InstanceSource) -> Iterator[Outcome]:
    """What is started: instances, and their volumes."""
    wanted = machine.context.required_tags
    if machine.patch:
        return
    if machine.node_class:
        yield from _judged(machine.root.at("spec", "tags"), wanted, "its nodes get")
    elif machine.kind == INSTANCE:
        own, root = machine.root.at("volumeTags"), machine.root.at("rootBlockDevice", "tags")
        yield from _judged(own if root.missing else root, wanted, "its disks get")
    elif machine.kind == TEMPLATE:
        rows = machine.root.at("tagSpecifications")
        for sort in STARTED:
            said = [row for row in rows.elements() if row.at("resourceType").raw == sort]
            unsure = [row for row in rows.elements() if row.at("resourceType").unknown]
            if said:
                yield from _judged(said[0].at("tags"), wanted, f"each {sort} gets")
            elif unsure:
                yield unknown(unsure[0])
            else:
                yield fail(rows, f"each {sort} that it starts gets no tags")


def _judged(given: Field, wanted: tuple[str, ...], who: str) -> Iterator[Outcome]:
    if given.unknown:
        yield unknown(given)
    elif lacks := _missing_keys(given, wanted):
        yield fail(given, f"{who} no tag {', '.join(lacks)}")


@rule(
    id="COST-20",
    title="Dynamically provisioned volumes have tags",
    severity="Medium",
    why="A disk for a claim can remain after its namespace is deleted, and then has no owner.",
    fix="Add tagSpecification_1 and further parameters to the StorageClass, or extraVolumeTags to the driver.",
    applies_to=objects("storage.k8s.io", "StorageClass"),
    defaults="The driver's own tags, with the claim but no owner (Amazon EBS CSI driver, parameters).",
)
def volumes_on_demand(storage: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """Disks of EBS: access points of EFS are told by their path, and cost nothing themselves."""
    if storage.at("provisioner").raw != EBS or storage.patch:
        return
    given = storage.at("parameters")
    if any(key.startswith("tagSpecification_") for key, _ in given.entries()):
        return
    drivers = [one for one in graph.of_type("aws:eks/addon:Addon") if one.at("addonName").raw == "aws-ebs-csi-driver"]
    extra = [one.at("configurationValues").parsed().at("controller", "extraVolumeTags") for one in drivers]
    if any(one.known for one in extra):
        return
    unsure = [field for field in (given, *extra) if field.unknown]
    yield unknown(unsure[0]) if unsure else fail(given, "its volumes get no tags of an owner")


def _missing_keys(tags: Field, required: tuple[str, ...]) -> list[str]:
    """Return the keys that are missing from tags or labels, or have an empty value."""
    return [key for key in required if tags.at(key).missing or tags.at(key).raw == ""]


def _default_tags(graph: Graph) -> frozenset[str]:
    """Return the keys of the tags that every AWS provider of the stack adds to all its resources."""
    keys: list[frozenset[str]] = []
    for provider in graph.of_type(PROVIDER):
        tags = provider.at("defaultTags").parsed().at("tags")
        keys.append(frozenset() if tags.unknown else frozenset(key for key, _ in tags.entries()))
    return reduce(lambda left, right: left & right, keys) if keys else frozenset()
