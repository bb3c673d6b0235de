"""NODE: the subnets that nodes stand in."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, rule, unknown
from agentenv.policies.view.cluster.instances import NODE_CLASS_GROUP, NODE_GROUP, boolean
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource

SUBNET = "aws:ec2/subnet:Subnet"


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
    """Node groups by what their subnets hang on, Karpenter's node classes by the tags that they select."""
    asked = [(one, one.at("mapPublicIpOnLaunch")) for one in graph.of_type(SUBNET)]
    open_ones = [one for one, given in asked if not given.missing and given.raw is not False]
    if not open_ones:
        return
    for group in graph.of_type(NODE_GROUP):
        named = graph.targets(group, "subnetIds", SUBNET)
        yield from _judged(group.at("subnetIds"), [one for one in open_ones if one in named])
    for node_class in graph.objects(NODE_CLASS_GROUP, "EC2NodeClass"):
        if node_class.at("spec", "associatePublicIPAddress").raw is not False:
            for term in node_class.at("spec", "subnetSelectorTerms").elements():
                yield from _judged(term, [one for one in open_ones if _selected(term.at("tags"), one)])


def _judged(field: Field, subnets: list[Resource]) -> Iterator[Outcome]:
    sure = [one for one in subnets if one.at("mapPublicIpOnLaunch").known and boolean(one.at("mapPublicIpOnLaunch"))]
    if sure:
        yield fail(field, f"the subnet {sure[0].name} gives its nodes addresses of the internet")
    elif any(one.at("mapPublicIpOnLaunch").unknown for one in subnets):
        yield unknown(field, "whether its subnets give addresses of the internet is not known yet")


def _selected(tags: Field, subnet: Resource) -> bool:
    """Whether a term's tags select the subnet; what is not known selects nothing that could be told."""
    wanted = list(tags.entries())
    has = [(subnet.at("tags", key), value) for key, value in wanted]
    return bool(wanted) and all(own.known and value.raw in (own.raw, "*") for own, value in has)
