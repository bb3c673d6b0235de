"""The network's graph, for each way it can be laid out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pulumi
import pytest

from agentenv.components._lib.arguments import ArgumentError
from agentenv.config.sections.network import DATA_PLANE_ENDPOINTS
from tests.fast.components.graph import ACCOUNT, REGION, UNKNOWN, ZONES, Graph, registered
from tests.fast.components.shapes import ROUTED, network

GATEWAYS = {"none": 0, "single": 1}


GRAPHS: dict[str, Graph] = {}


def build_graph(**layout: Any) -> Graph:
    """The graph of a layout, which several tests look at and none changes."""
    key = repr(sorted(layout.items()))
    if key not in GRAPHS:
        GRAPHS[key] = registered(lambda: network(**layout))
    return GRAPHS[key]


def reached_by(graph: Graph, table: str) -> dict[str, str]:
    """Return the targets of a route table's routes by their destination."""
    return {
        route.inputs["destinationCidrBlock"]: route.inputs.get("natGatewayId") or route.inputs["gatewayId"]
        for route in graph.of("Route")
        if route.inputs["routeTableId"] == f"{table}-id"
    }


@pytest.mark.parametrize("nat", ["none", "single", "per-zone"])
@pytest.mark.parametrize("zones", [2, 3, 4])
def test_each_zone_has_its_subnets_tables_and_way_out(nat: str, zones: int) -> None:
    graph = build_graph(zones=zones, nat=nat)
    gateways = GATEWAYS.get(nat, zones)

    assert len(graph.of("Subnet")) == 2 * zones
    assert len(graph.of("NatGateway")) == len(graph.of("Eip")) == gateways
    assert [
        gateway.inputs["subnetId"] for gateway in sorted(graph.of("NatGateway"), key=lambda gateway: gateway.name)
    ] == [f"net-public-{zone}-id" for zone in range(gateways)]
    assert reached_by(graph, "net-public") == {"0.0.0.0/0": "net-internet-id"}
    for zone in range(zones):
        expected = {} if nat == "none" else {"0.0.0.0/0": f"net-nat-{zone if nat == 'per-zone' else 0}-id"}
        assert reached_by(graph, f"net-private-{zone}") == expected
    associated = {
        association.inputs["subnetId"]: association.inputs["routeTableId"]
        for association in graph.of("RouteTableAssociation")
    }
    assert associated == {
        **{f"net-public-{zone}-id": "net-public-id" for zone in range(zones)},
        **{f"net-private-{zone}-id": f"net-private-{zone}-id" for zone in range(zones)},
    }


@pytest.mark.parametrize("nat", ["none", "single", "per-zone"])
@pytest.mark.parametrize("fewer", [2, 3])
def test_another_zone_leaves_what_exists_as_it_was(nat: str, fewer: int) -> None:
    before, after = (build_graph(zones=zones, nat=nat, endpoints=("sts",)).shape() for zones in (fewer, fewer + 1))
    # Endpoints are updated in place to reach the new zone; that is what they are for.
    growing = {"VpcEndpoint": {"subnetIds", "routeTableIds"}}
    for key, inputs in before.items():
        grown = growing.get(key[0].rsplit(":", 1)[-1], set[str]())
        assert {name: value for name, value in inputs.items() if name not in grown} == {
            name: value for name, value in after[key].items() if name not in grown
        }


def test_a_gateway_a_zone_later_changes_routes_only() -> None:
    single, each = build_graph(zones=3, nat="single").shape(), build_graph(zones=3, nat="per-zone").shape()
    changed = {key for key, inputs in single.items() if each[key] != inputs}
    assert changed == {("aws:ec2/route:Route", f"net-private-{zone}") for zone in (1, 2)}


def test_zones_are_chosen_by_name_and_then_stable() -> None:
    graph = build_graph(zones=3)
    for zone, name in enumerate(sorted(ZONES)[:3]):
        assert {
            graph.resource("Subnet", f"{kind}-{zone}").inputs["availabilityZone"] for kind in ("public", "private")
        } == {name}
    assert all(subnet.ignored == ["availabilityZone"] for subnet in graph.of("Subnet"))


def test_named_zones_are_used_as_configured() -> None:
    names = ("eu-west-1c", "eu-west-1b")
    graph = build_graph(zones=names)
    assert tuple(graph.resource("Subnet", f"public-{zone}").inputs["availabilityZone"] for zone in (0, 1)) == names
    assert all(subnet.ignored == [] for subnet in graph.of("Subnet"))


def test_a_region_with_too_few_zones_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"network\.zones: found 3, but the region offers 2 .*; allowed"):
        registered(lambda: network(zones=3), zones=["eu-west-1b", "eu-west-1a"])


def test_without_settings_there_are_only_free_endpoints() -> None:
    graph = build_graph()
    assert {endpoint.inputs["serviceName"] for endpoint in graph.of("VpcEndpoint")} == {
        f"com.amazonaws.{REGION}.s3",
        f"com.amazonaws.{REGION}.dynamodb",
    }
    assert all(endpoint.inputs["vpcEndpointType"] == "Gateway" for endpoint in graph.of("VpcEndpoint"))
    assert {group.name for group in graph.of("SecurityGroup")} == {"net-nodes"}


def test_interface_endpoints_admit_only_the_node_security_group() -> None:
    graph = build_graph(endpoints=("ecr.api", "sts"))
    interface = [endpoint for endpoint in graph.of("VpcEndpoint") if endpoint.inputs["vpcEndpointType"] == "Interface"]
    assert {endpoint.inputs["serviceName"] for endpoint in interface} == {
        f"com.amazonaws.{REGION}.ecr.api",
        f"com.amazonaws.{REGION}.sts",
    }
    for endpoint in interface:
        assert endpoint.inputs["privateDnsEnabled"] is True
        assert endpoint.inputs["subnetIds"] == ["net-private-0-id", "net-private-1-id"]
        assert endpoint.inputs["securityGroupIds"] == ["net-endpoints-id"]
    rule = graph.resource("SecurityGroupIngressRule").inputs
    assert (rule["securityGroupId"], rule["referencedSecurityGroupId"]) == ("net-endpoints-id", "net-nodes-id")
    assert (rule["ipProtocol"], rule["fromPort"], rule["toPort"]) == ("tcp", 443, 443)


@pytest.mark.parametrize("endpoints", [(), ("sts", "logs")])
@pytest.mark.parametrize("nat", ["none", "per-zone"])
def test_no_group_is_open_to_the_world(nat: str, endpoints: tuple[str, ...]) -> None:
    graph = build_graph(nat=nat, endpoints=endpoints)
    for rule in [*graph.of("SecurityGroupIngressRule"), *graph.of("SecurityGroupEgressRule")]:
        assert rule.inputs.get("referencedSecurityGroupId"), f"{rule.name} admits more than a group"
        assert not {"cidrIpv4", "cidrIpv6", "prefixListId"} & set(rule.inputs)
    for group in graph.of("SecurityGroup"):
        assert not {"ingress", "egress"} & set(group.inputs)
    default = graph.resource("DefaultSecurityGroup").inputs
    assert default["ingress"] == default["egress"] == []
    assert not any(subnet.inputs["mapPublicIpOnLaunch"] for subnet in graph.of("Subnet"))


def test_gateways_are_created_after_their_dependencies_and_deleted_before() -> None:
    graph = build_graph(zones=2, nat="per-zone")
    internet = graph.resource("InternetGateway").urn
    for resource in [*graph.of("Eip"), *graph.of("NatGateway")]:
        assert internet in resource.after
    writing = graph.resource("RolePolicy").urn
    assert writing in graph.resource("FlowLog").after


def test_flow_logs_are_written_by_a_role_for_this_accounts_flow_logs_only() -> None:
    graph = build_graph(flow_log_days=30, flow_log_traffic="rejected")
    group, flows = graph.resource("LogGroup"), graph.resource("FlowLog").inputs
    assert group.inputs["retentionInDays"] == 30
    assert group.inputs["kmsKeyId"] == f"arn:aws:made:{REGION}:{ACCOUNT}:net-logs"
    assert (flows["trafficType"], flows["logDestinationType"]) == ("REJECT", "cloud-watch-logs")
    trust = graph.resource("Role").policy("assumeRolePolicy")["Statement"][0]
    assert trust["Principal"] == {"Service": "vpc-flow-logs.amazonaws.com"}
    assert trust["Condition"] == {
        "StringEquals": {"aws:SourceAccount": ACCOUNT},
        "ArnLike": {"aws:SourceArn": f"arn:aws:ec2:{REGION}:{ACCOUNT}:vpc-flow-log/*"},
    }
    for statement in graph.resource("RolePolicy").policy()["Statement"]:
        assert all("net-flows" in resource for resource in statement["Resource"])
    context = graph.resource("Key").policy()["Statement"][1]["Condition"]["ArnLike"][
        "kms:EncryptionContext:aws:logs:arn"
    ]
    assert context == [
        f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/{prefix}/*"
        for prefix in ("agent-environment/dev", "aws/eks/dev-agents")
    ]
    assert group.inputs["name"].startswith("/agent-environment/dev/")


def test_controllers_find_what_is_theirs_by_tags() -> None:
    graph = build_graph()

    def tagged(key: str) -> set[str]:
        return {resource.name for resource in graph.aws_resources() if key in resource.inputs.get("tags", {})}

    assert tagged("kubernetes.io/role/elb") == {"net-public-0", "net-public-1"}
    assert tagged("kubernetes.io/role/internal-elb") == {"net-private-0", "net-private-1"}
    assert tagged("karpenter.sh/discovery") == {"net-private-0", "net-private-1", "net-nodes"}
    # On the nodes' group it would make load balancer controllers refuse the node.
    assert tagged("kubernetes.io/cluster/dev-agents") == {
        f"net-{kind}-{zone}" for kind in ("public", "private") for zone in (0, 1)
    }


def test_a_preview_of_nothing_that_exists_knows_the_graph_but_no_ids() -> None:
    first = registered(lambda: network(zones=3, nat="per-zone", endpoints=("sts",)), preview=True)
    then = build_graph(zones=3, nat="per-zone", endpoints=("sts",))
    assert {resource.key for resource in first.resources} == {resource.key for resource in then.resources}
    assert first.resource("Route", "public").inputs["gatewayId"] == UNKNOWN


def test_each_private_subnet_routes_the_peers_to_the_attached_transit_gateway() -> None:
    graph = build_graph(**ROUTED)
    (attachment,) = graph.of("VpcAttachment")
    assert attachment.inputs["transitGatewayId"] == ROUTED["transit_gateway"]
    assert attachment.inputs["subnetIds"] == ["net-private-0-id", "net-private-1-id"]
    routes = [route for route in graph.of("Route") if route.inputs.get("transitGatewayId")]
    assert {route.inputs["routeTableId"] for route in routes} == {"net-private-0-id", "net-private-1-id"}
    assert all(route.inputs["destinationCidrBlock"] == "10.9.0.0/16" for route in routes)
    assert all(attachment.urn in route.after for route in routes)


def test_the_outputs_are_by_zone() -> None:
    def build() -> pulumi.Output[Any]:
        net = network(zones=3, nat="per-zone")
        return pulumi.Output.all(net.private_subnet_ids, net.public_subnet_ids, net.zone_names, net.nat_addresses)

    private, public, zones, addresses = registered(build).result
    assert private == [f"net-private-{zone}-id" for zone in range(3)]
    assert public == [f"net-public-{zone}-id" for zone in range(3)]
    assert zones == sorted(ZONES)[:3]
    assert len(addresses) == 3


def test_more_endpoints_disturb_nothing() -> None:
    services = ("sts", "logs", "ecr.api", "kms")
    shapes = [build_graph(endpoints=services[:count]).shape() for count in range(1, len(services) + 1)]
    for fewer, more in pairwise(shapes):
        assert {key: more[key] for key in fewer} == fewer


def reachable_without(graph: Graph, lost: int, zones: int, services: tuple[str, ...]) -> dict[int, set[str]]:
    """Return the services that each other zone reaches over what is outside of the lost zone."""
    left = [zone for zone in range(zones) if zone != lost]
    gateways = {
        f"{gateway.name}-id"
        for gateway in graph.of("NatGateway")
        if gateway.inputs["subnetId"] != f"net-public-{lost}-id"
    }
    endpoints = {
        str(endpoint.inputs["serviceName"]).removeprefix(f"com.amazonaws.{REGION}.")
        for endpoint in graph.of("VpcEndpoint")
        if any(f"net-private-{zone}-id" in endpoint.inputs.get("subnetIds", ()) for zone in left)
    }
    return {
        zone: {
            service
            for service in services
            if service in endpoints or reached_by(graph, f"net-private-{zone}").get("0.0.0.0/0") in gateways
        }
        for zone in left
    }


@pytest.mark.parametrize(
    ("layout", "reached"),
    [
        ({"nat": "single"}, set[str]()),
        ({"nat": "single", "endpoints": ("data-plane",)}, set(DATA_PLANE_ENDPOINTS)),
        ({"nat": "per-zone"}, {*DATA_PLANE_ENDPOINTS, "internet"}),
    ],
)
def test_the_loss_of_the_first_zone_leaves_the_others_what_the_settings_promise(
    layout: dict[str, Any], reached: set[str]
) -> None:
    graph = build_graph(zones=3, **layout)
    found = reachable_without(graph, 0, 3, (*DATA_PLANE_ENDPOINTS, "internet"))
    assert found == {1: reached, 2: reached}
