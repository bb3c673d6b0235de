"""COST rules about owners: tags of AWS resources, nodes and disks, and labels of sandboxes."""

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

STARTED_TYPES = ("instance", "volume")
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
    fix="Add the tags environment, component, owner and cost-center. The components of this project take them from"
    " `cost.owner` and `cost.costCenter`.",
    applies_to=TAGGED,
    defaults="Only the `defaultTags` of the provider.",
)
def tags(resource: Resource, graph: Graph) -> Iterator[Outcome]:
    """Check that every required tag has a value."""
    required = resource.context.required_tags
    field = resource.at("tags")
    if resource.type == SCALING_GROUP:
        yield from _scaling_group_tags(field, required)
        return
    if missing := _missing_keys(field, required):
        missing = [key for key in missing if key not in _default_tags(graph)]
    if field.unknown:
        yield unknown(field)
    elif missing:
        yield fail(field, f"it has no tag {', '.join(missing)}")


def _scaling_group_tags(field: Field, required: tuple[str, ...]) -> Iterator[Outcome]:
    """Check the tags of a scaling group, a list in which each says whether instances get it too."""
    if field.holds_unknown():
        yield unknown(field)
        return
    propagated = {scalar(row.at("key")) for row in field.elements() if row.at("propagateAtLaunch").raw is True}
    if missing := [key for key in required if key not in propagated]:
        yield fail(field, f"its instances get no tag {', '.join(missing)}")


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
    """Check namespaces of sandboxes, pod templates of sandboxes, and claims."""
    required = graph.context.required_labels
    namespaces = [each.declaration.labels for each in sandbox_namespaces(graph) if each.declaration is not None]
    templates = [pod.labels for pod in graph.pods if pod.sandbox and not pod.patch]
    claims = [claim for claim in graph.objects(EXTENSIONS, "SandboxClaim") if not claim.patch]
    for field, keys in [
        *((field, required) for field in (*namespaces, *templates)),
        *((claim.at("spec", "additionalPodMetadata", "labels"), (USER_LABEL,)) for claim in claims),
    ]:
        if field.unknown:
            yield unknown(field)
        elif missing := _missing_keys(field, keys):
            yield fail(field, f"it has no label {', '.join(missing)}")


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
def node_tags(source: InstanceSource) -> Iterator[Outcome]:
    """Check the tags of started instances and of their volumes."""
    required = source.context.required_tags
    if source.patch:
        return
    if source.node_class:
        yield from _started_tags(source.root.at("spec", "tags"), required, "its nodes get")
    elif source.kind == INSTANCE:
        own, root = source.root.at("volumeTags"), source.root.at("rootBlockDevice", "tags")
        yield from _started_tags(own if root.missing else root, required, "its disks get")
    elif source.kind == TEMPLATE:
        rows = source.root.at("tagSpecifications")
        for started in STARTED_TYPES:
            matching = [row for row in rows.elements() if row.at("resourceType").raw == started]
            possible = [row for row in rows.elements() if row.at("resourceType").unknown]
            if matching:
                yield from _started_tags(matching[0].at("tags"), required, f"each {started} gets")
            elif possible:
                yield unknown(possible[0])
            else:
                yield fail(rows, f"each {started} that it starts gets no tags")


def _started_tags(field: Field, required: tuple[str, ...], subject: str) -> Iterator[Outcome]:
    if field.unknown:
        yield unknown(field)
    elif missing := _missing_keys(field, required):
        yield fail(field, f"{subject} no tag {', '.join(missing)}")


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
    """Check classes of EBS. Access points of EFS are identified by their path, and cost nothing."""
    if storage.at("provisioner").raw != EBS or storage.patch:
        return
    parameters = storage.at("parameters")
    if any(key.startswith("tagSpecification_") for key, _ in parameters.entries()):
        return
    addons = graph.of_type("aws:eks/addon:Addon")
    drivers = [addon for addon in addons if addon.at("addonName").raw == "aws-ebs-csi-driver"]
    extra = [driver.at("configurationValues").parsed().at("controller", "extraVolumeTags") for driver in drivers]
    if any(field.known for field in extra):
        return
    possible = [field for field in (parameters, *extra) if field.unknown]
    yield unknown(possible[0]) if possible else fail(parameters, "its volumes have no tags of an owner")


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
