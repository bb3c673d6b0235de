"""The network: a VPC over several availability zones, with NAT gateways, VPC endpoints and flow logs.

Resources are numbered by zone, from 0: AWS may choose the name of a zone, but its number never changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2, get_availability_zones_output

from agentenv.components._lib.arguments import ArgumentError
from agentenv.components._lib.aws_context import aws_context
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.planned_documents import OUTPUT, PlannedDocuments
from agentenv.components._lib.tags import Labels
from agentenv.components.network.endpoints import EndpointNetwork, create_endpoints
from agentenv.components.network.flow_logs import create_flow_logs
from agentenv.components.network.node_security_group import create_nodes_security_group
from agentenv.components.network.runtime_bucket import create_runtime_bucket
from agentenv.components.network.transit_gateway import attach_transit_gateway
from agentenv.core.nodes.node_pools import DISCOVERY_TAG
from agentenv.core.plan import NetworkPlan

ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True)
class NetworkContext:
    """The network that other components are created in."""

    vpc_id: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]  # private, one per zone in order
    nodes_security_group_id: pulumi.Input[str]
    logs_key_arn: pulumi.Input[str] | None = None  # the KMS key of log groups
    endpoints_security_group_id: pulumi.Input[str] | None = None  # of the interface endpoints, if there are any
    nat_addresses: Sequence[pulumi.Input[str]] = ()  # public, of the NAT gateways
    public_subnet_ids: Sequence[pulumi.Input[str]] = ()  # one per zone in order


class Network(pulumi.ComponentResource):
    """A VPC with public and private subnets, gateways, endpoints, flow logs and the security group of nodes."""

    vpc_id: pulumi.Output[str]
    """The VPC."""

    cidr: pulumi.Output[str]
    """Its CIDR block."""

    zone_names: pulumi.Output[list[str]]
    """The availability zones in use, by number."""

    public_subnet_ids: pulumi.Output[list[str]]
    """The public subnets, one per zone, for load balancers and NAT gateways."""

    private_subnet_ids: pulumi.Output[list[str]]
    """The private subnets, one per zone, for nodes, pods, endpoints and mount targets."""

    private_route_table_ids: pulumi.Output[list[str]]
    """The route tables of the private subnets, one per zone."""

    nodes_security_group_id: pulumi.Output[str]
    """The security group of the nodes. It has only the rules that other components add."""

    endpoints_security_group_id: pulumi.Output[str]
    """The security group of the interface endpoints; empty without endpoints. The cluster adds a rule for Fargate."""

    nat_addresses: pulumi.Output[list[str]]
    """The public addresses of the NAT gateways."""

    flow_log_group: pulumi.Output[str]
    """The log group of the flow logs."""

    logs_key_arn: pulumi.Output[str]
    """The KMS key of log groups under `/agent-environment/<environment>/` and of the cluster's control plane."""

    def __init__(self, name: str, plan: NetworkPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        """Create the network."""
        labels, settings = Labels.of(plan.environment, "network", name), plan.settings
        cluster, zone_names = plan.environment.cluster_name, settings.zones
        pinned, count = not isinstance(zone_names, int), settings.zone_count

        super().__init__("agent-environment:index:Network", name, {}, opts)
        self._name, self._labels, self._cluster = name, labels, cluster
        self._child: ChildOptions = child_options(self, opts)
        aws = aws_context(self)
        zones = self._available(count) if isinstance(zone_names, int) else zone_names

        vpc = ec2.Vpc(
            f"{name}-vpc",
            cidr_block=plan.addresses.vpc,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=self._labels.tags("vpc"),
            opts=self._child(),
        )
        self._close_default_security_group(vpc)
        gateway = ec2.InternetGateway(
            f"{name}-internet", vpc_id=vpc.id, tags=self._labels.tags("internet"), opts=self._child()
        )
        public = self._subnets(vpc, "public", plan.addresses.public, zones, pinned=pinned)
        self._public_routes(vpc, gateway, public)
        self.private_subnets = self._subnets(vpc, "private", plan.addresses.private, zones, pinned=pinned)
        gateways = self._nat_gateways(gateway, public, {"none": 0, "single": 1, "per-zone": count}[settings.nat])
        tables = self._private_routes(vpc, gateways)
        attach_transit_gateway(settings, self.private_subnets, tables, self._labels, self._child)
        nodes = create_nodes_security_group(labels, self._child, vpc.id, cluster)
        endpoint_network = EndpointNetwork(vpc, self.private_subnets, tables, nodes, settings.endpoints)
        endpoints_group = create_endpoints(endpoint_network, self._labels, aws, self._child)
        planned_documents = PlannedDocuments()
        flows = create_flow_logs(
            vpc, settings, self._labels, aws, self._child, planned_documents=planned_documents, cluster=cluster
        )

        if plan.runtime_bucket:
            create_runtime_bucket(vpc.id, self._labels, aws, self._child, planned_documents)

        self.vpc_id = vpc.id
        self.cidr = vpc.cidr_block
        self.zone_names = pulumi.Output.all(*[subnet.availability_zone for subnet in self.private_subnets])
        self.public_subnet_ids = pulumi.Output.all(*[subnet.id for subnet in public])
        self.private_subnet_ids = pulumi.Output.all(*[subnet.id for subnet in self.private_subnets])
        self.private_route_table_ids = pulumi.Output.all(*[table.id for table in tables])
        self.nodes_security_group_id = nodes.id
        endpoints_id = endpoints_group.id if endpoints_group else None
        self.endpoints_security_group_id = endpoints_id or pulumi.Output.from_input("")
        nat_addresses = [gateway.public_ip for gateway in gateways]
        self.nat_addresses = pulumi.Output.all(*nat_addresses)
        self.flow_log_group = flows.group.name
        self.logs_key_arn = flows.key.arn
        subnet_ids = [subnet.id for subnet in self.private_subnets]
        self.context = NetworkContext(
            vpc.id,
            subnet_ids,
            nodes.id,
            flows.key.arn,
            endpoints_id,
            nat_addresses,
            [subnet.id for subnet in public],
        )
        self.register_outputs({**component_outputs(self), OUTPUT: planned_documents.entries})

    def _available(self, count: int) -> list[pulumi.Output[str]]:
        """Return the zones of the region by number, as outputs of the provider."""
        available = get_availability_zones_output(
            state="available",
            # Local and wavelength zones are opt-in, and do not support all of these resources.
            filters=[{"name": "opt-in-status", "values": ["opt-in-not-required"]}],
            opts=pulumi.InvokeOptions(parent=self),
        )

        def zone(number: int) -> pulumi.Output[str]:
            def select(names: Sequence[str]) -> str:
                if len(names) < count:
                    raise ArgumentError(
                        "network.zones",
                        f"{count}, but the region offers {len(names)} ({', '.join(sorted(names))})",
                        f"at most {len(names)}",
                    )
                return sorted(names)[number]

            return available.names.apply(select)

        return [zone(number) for number in range(count)]

    def _close_default_security_group(self, vpc: ec2.Vpc) -> None:
        """Remove every rule from the default security group of the VPC.

        The main route table stays as AWS created it: each subnet has its own table, and a subnet added by hand has no
        internet route. The default network ACL stays open: it is stateless, and could only duplicate security groups.
        """
        ec2.DefaultSecurityGroup(
            f"{self._name}-default",
            vpc_id=vpc.id,
            ingress=[],
            egress=[],
            tags=self._labels.tags("default-closed"),
            opts=self._child(),
        )

    def _subnets(
        self, vpc: ec2.Vpc, kind: str, blocks: Sequence[str], zones: Sequence[pulumi.Input[str]], *, pinned: bool
    ) -> list[ec2.Subnet]:
        tags: dict[str, pulumi.Input[str]] = (
            {"kubernetes.io/role/elb": "1"} if kind == "public" else {"kubernetes.io/role/internal-elb": "1"}
        )
        tags[f"kubernetes.io/cluster/{self._cluster}"] = "shared"
        if kind == "private":
            tags[DISCOVERY_TAG] = self._cluster
        return [
            ec2.Subnet(
                f"{self._name}-{kind}-{number}",
                vpc_id=vpc.id,
                cidr_block=block,
                availability_zone=zones[number],
                # Gateways and load balancers have their own addresses; nothing else gets a public one.
                map_public_ip_on_launch=False,
                tags=self._labels.tags(f"{kind}-{number}", **tags),
                # With a count, AWS's current list of zones decides the zone of a new subnet. A later list must not
                # move, and so replace, a subnet in use. Zones set by name are applied as they are.
                opts=self._child(None if pinned else pulumi.ResourceOptions(ignore_changes=["availabilityZone"])),
            )
            for number, block in enumerate(blocks)
        ]

    def _public_routes(self, vpc: ec2.Vpc, gateway: ec2.InternetGateway, subnets: Sequence[ec2.Subnet]) -> None:
        table = ec2.RouteTable(
            f"{self._name}-public", vpc_id=vpc.id, tags=self._labels.tags("public"), opts=self._child()
        )
        ec2.Route(
            f"{self._name}-public",
            route_table_id=table.id,
            destination_cidr_block=ANYWHERE,
            gateway_id=gateway.id,
            opts=self._child(),
        )
        for number, subnet in enumerate(subnets):
            ec2.RouteTableAssociation(
                f"{self._name}-public-{number}", route_table_id=table.id, subnet_id=subnet.id, opts=self._child()
            )

    def _nat_gateways(
        self, internet: ec2.InternetGateway, public: Sequence[ec2.Subnet], count: int
    ) -> list[ec2.NatGateway]:
        # AWS requires the internet gateway for addresses and NAT gateways, and detaches it only after they are gone.
        # Neither refers to it, so the dependency is explicit.
        after = pulumi.ResourceOptions(depends_on=[internet])
        gateways: list[ec2.NatGateway] = []
        for number in range(count):
            address = ec2.Eip(
                f"{self._name}-nat-{number}",
                domain="vpc",
                tags=self._labels.tags(f"nat-{number}"),
                opts=self._child(after),
            )
            gateways.append(
                ec2.NatGateway(
                    f"{self._name}-nat-{number}",
                    allocation_id=address.allocation_id,
                    subnet_id=public[number].id,
                    tags=self._labels.tags(f"nat-{number}"),
                    opts=self._child(after),
                )
            )
        return gateways

    def _private_routes(self, vpc: ec2.Vpc, gateways: Sequence[ec2.NatGateway]) -> list[ec2.RouteTable]:
        """Create a route table per zone, so that a later NAT gateway per zone changes routes and replaces no table."""
        tables: list[ec2.RouteTable] = []
        for number, subnet in enumerate(self.private_subnets):
            table = ec2.RouteTable(
                f"{self._name}-private-{number}",
                vpc_id=vpc.id,
                tags=self._labels.tags(f"private-{number}"),
                opts=self._child(),
            )
            ec2.RouteTableAssociation(
                f"{self._name}-private-{number}", route_table_id=table.id, subnet_id=subnet.id, opts=self._child()
            )
            if gateways:
                ec2.Route(
                    f"{self._name}-private-{number}",
                    route_table_id=table.id,
                    destination_cidr_block=ANYWHERE,
                    nat_gateway_id=gateways[min(number, len(gateways) - 1)].id,
                    opts=self._child(),
                )
            tables.append(table)
        return tables
