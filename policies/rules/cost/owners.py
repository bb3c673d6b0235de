"""COST: whose everything is: tags of AWS resources and of what nodes start from, labels of sandboxes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, reduce
from pathlib import Path

from agentenv.core.classes.names import USER_LABEL
from agentenv.policies.rules.nodes.instances import MACHINE
from agentenv.policies.rules.registry import GRAPH, About, Outcome, fail, objects, rule, unknown
from agentenv.policies.view.cluster.instances import INSTANCE, TEMPLATE, Machine
from agentenv.policies.view.fields import Field, scalar
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject, Resource
from agentenv.policies.view.tenants.sandbox_namespaces import EXTENSIONS, rooms_of

STARTED = ("instance", "volume")
EBS = "ebs.csi.aws.com"
SCALING_GROUP = "aws:autoscaling/group:Group"
PROVIDER = "pulumi:providers:aws"
_TAGGABLE_FILE = Path(__file__).parents[2] / "taggable.txt"


@cache
def taggable_types() -> frozenset[str]:
    """Return the types that take tags as a mapping; the file is generated from the provider's SDK."""
    return frozenset(_TAGGABLE_FILE.read_text(encoding="utf-8").split())


TAGGED: About[Resource] = About(
    "every AWS resource that can carry tags",
    lambda kind: kind.startswith("aws:") and (kind in taggable_types() or kind == SCALING_GROUP),
    lambda resource: (resource,),
)


@rule(
    id="COST-01",
    title="An AWS resource says whose it is",
    severity="High",
    why="What has no tags is nobody's: its cost stands on no team's bill, and nobody dares to remove it.",
    do="Give it the tags environment, component, owner and cost-center; our components take them as `ownership`.",
    about=TAGGED,
    defaults="None but those that the provider is told to give to everything (its `defaultTags`).",
)
def tags(resource: Resource, graph: Graph) -> Iterator[Outcome]:
    """Every key that is asked for, with something in it."""
    wanted = resource.situation.required_tags
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
    title="A sandbox says whose it is",
    severity="High",
    why="Labels are how the ledger, and AWS's own split of costs, tell whose a pod was: without them its time"
    " is nobody's.",
    do="Label namespaces and pod templates of sandboxes with what the packs' `requiredLabels` say, and claims"
    f" with the user (spec.additionalPodMetadata.labels, {USER_LABEL}).",
    about=GRAPH,
)
def labels(graph: Graph) -> Iterator[Outcome]:
    """Namespaces with sandboxes, templates of sandboxes' pods, and claims."""
    wanted = graph.situation.required_labels
    spaces = [room.space.labels for room in rooms_of(graph) if room.space is not None]
    templates = [pod.labels for pod in graph.pods if pod.sandbox and not pod.patch]
    claims = [claim for claim in graph.objects(EXTENSIONS, "SandboxClaim") if not claim.patch]
    for field, keys in [
        *((field, wanted) for field in (*spaces, *templates)),
        *((claim.at("spec", "additionalPodMetadata", "labels"), (USER_LABEL,)) for claim in claims),
    ]:
        if field.unknown:
            yield unknown(field)
        elif lacks := _missing_keys(field, keys):
            yield fail(field, f"it has no label {', '.join(lacks)}")


@rule(
    id="COST-05",
    title="Nodes and their disks say whose they are",
    severity="High",
    why="Most of the bill is instances that no stack knows: they have the tags that what starts them gives them, and"
    " their disks, too.",
    do="Set spec.tags of an EC2NodeClass, tagSpecifications for instance and volume of a launch template, and"
    " volumeTags of an instance.",
    about=MACHINE,
    defaults="None but Karpenter's own. A launch template's own tags are not its instances' (EC2 user guide).",
)
def started(machine: Machine) -> Iterator[Outcome]:
    """What is started: instances, and their volumes."""
    wanted = machine.situation.required_tags
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
    title="Volumes that are made on demand say whose they are",
    severity="Medium",
    why="A disk that a claim was given stays when its namespace is gone, and then is nobody's.",
    do="Add tagSpecification_1 and further to the parameters of the StorageClass, or extraVolumeTags to the driver.",
    about=objects("storage.k8s.io", "StorageClass"),
    defaults="The driver's own tags, which name a claim and no owner (Amazon EBS CSI driver, parameters).",
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
    return reduce(frozenset.intersection, keys) if keys else frozenset()
