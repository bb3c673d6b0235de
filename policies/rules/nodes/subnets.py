"""NODE rules about the subnets of nodes."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, rule, unknown
from agentenv.policies.view.cluster.instances import NODE_CLASS_GROUP, NODE_GROUP, boolean
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource

SUBNET, PUBLIC = "aws:ec2/subnet:Subnet", "mapPublicIpOnLaunch"


@rule(
    id="NODE-10",
    title="Nodes are not in public subnets",
    severity="High",
    why="A subnet that assigns public addresses exposes every node of a group to the internet.",
    fix="Use private subnets, or set mapPublicIpOnLaunch to false; for Karpenter, also set associatePublicIPAddress to"
    " false.",
    equivalents={"Checkov": ("CKV_AWS_130",), "Security Hub": ("EC2.15",)},
    applies_to=GRAPH,
    defaults="A subnet assigns no public addresses by default (VPC user guide, subnet settings).",
)
def public_subnets(graph: Graph) -> Iterator[Outcome]:
    """Check the subnets of node groups by dependencies, and of Karpenter's node classes by tags."""
    public = [
        subnet
        for subnet in graph.of_type(SUBNET)
        if not subnet.at(PUBLIC).missing and subnet.at(PUBLIC).raw is not False
    ]
    if not public:
        return
    for group in graph.of_type(NODE_GROUP):
        targets = graph.targets(group, "subnetIds", SUBNET)
        yield from _in_public_subnet(group.at("subnetIds"), [subnet for subnet in public if subnet in targets])
    for node_class in graph.objects(NODE_CLASS_GROUP, "EC2NodeClass"):
        if node_class.at("spec", "associatePublicIPAddress").raw is not False:
            for term in node_class.at("spec", "subnetSelectorTerms").elements():
                yield from _in_public_subnet(term, [subnet for subnet in public if _selects(term.at("tags"), subnet)])


def _in_public_subnet(field: Field, subnets: list[Resource]) -> Iterator[Outcome]:
    certain = [subnet for subnet in subnets if subnet.at(PUBLIC).known and boolean(subnet.at(PUBLIC))]
    if certain:
        yield fail(field, f"the subnet {certain[0].name} assigns public addresses to its nodes")
    elif any(subnet.at(PUBLIC).unknown for subnet in subnets):
        yield unknown(field, "whether its subnets assign public addresses is not known yet")


def _selects(tags: Field, subnet: Resource) -> bool:
    """Return whether the tags of a term select a subnet. Unknown tags select none."""
    pairs = [(subnet.at("tags", key), value) for key, value in tags.entries()]
    return bool(pairs) and all(own.known and value.raw in (own.raw, "*") for own, value in pairs)
