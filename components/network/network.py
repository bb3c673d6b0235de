"""The network: a VPC over several zones, its ways out, and its record of who spoke with whom.

Resources are numbered by zone, from 0: a zone's name may be chosen by AWS, its number never changes.
"""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

import pulumi
from pulumi_aws import ec2, get_availability_zones_output

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.aws_context import aws_context, read_zones
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.planned_documents import OUTPUT, PlannedDocuments
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.network.endpoints import Doors, create_endpoints, endpoint_services
from agentenv.components.network.flow_logs import create_flow_logs, read_flow_log_settings
from agentenv.components.network.node_security_group import create_nodes_security_group
from agentenv.core.values.addresses import AddressSpaceError, plan

NAT = ("none", "single", "per-zone")
ANYWHERE = "0.0.0.0/0"


class NetworkLayout(TypedDict):
    """How the network is laid out."""

    cidr: str
    """The VPC's range, `10.40.0.0/16` for example; it is divided so that another zone moves no subnet."""

    zones: NotRequired[int]
    """Over how many zones, taken from those of the region in the order of their names; 2 unless told."""

    zone_names: NotRequired[list[str]]
    """The zones by name instead, in an order that must not change afterwards; more are added at the end."""

    nat: str
    """How private subnets reach the internet: `none` (not at all), `single` (one gateway, cheap) or `per-zone`."""

    endpoints: NotRequired[list[str]]
    """AWS services to reach within the VPC, such as `ecr.api`, paid by hour and zone; S3 and DynamoDB are free."""

    flow_log_days: NotRequired[int]
    """How many days flow logs are kept: 14 unless told, one of the numbers CloudWatch offers."""

    flow_log_traffic: NotRequired[str]
    """Which traffic they record: `all` (unless told), `accepted` or `rejected`."""


class NetworkArgs(TypedDict):
    """What a network is made from."""

    ownership: Ownership
    """Whose it is."""

    layout: NetworkLayout
    """How it is laid out."""

    cluster_name: NotRequired[str]
    """The cluster that will live here: its controllers find subnets and groups by this name in their tags."""


class Network(pulumi.ComponentResource):
    """A VPC with a public and a private subnet in each zone, gateways, endpoints, flow logs and the nodes' group."""

    vpc_id: pulumi.Output[str]
    """The VPC."""

    cidr: pulumi.Output[str]
    """Its range."""

    zone_names: pulumi.Output[list[str]]
    """The zones in use, by number."""

    public_subnet_ids: pulumi.Output[list[str]]
    """A subnet a zone for load balancers and NAT gateways."""

    private_subnet_ids: pulumi.Output[list[str]]
    """A subnet a zone for nodes, pods, endpoints and mount targets."""

    private_route_table_ids: pulumi.Output[list[str]]
    """A route table a zone, of its private subnet."""

    nodes_security_group_id: pulumi.Output[str]
    """The group that nodes are in. It lets nothing through but what other components add."""

    endpoints_security_group_id: pulumi.Output[str]
    """The group of the interface endpoints, to which the group of pods on Fargate is added; empty without endpoints."""

    nat_addresses: pulumi.Output[list[str]]
    """The public addresses that private subnets are seen under."""

    flow_log_group: pulumi.Output[str]
    """The log group with the flow logs."""

    logs_key_arn: pulumi.Output[str]
    """The key for log groups under `/agent-environment/<environment>/`, those of other components too, and for that of
    the cluster's control plane."""

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make the network; a wrong plain argument raises before anything is made."""
        reader = ArgumentReader.of("network", args, NetworkArgs)
        layout = reader.part("layout", NetworkLayout)
        labels = Labels.of(reader, "network", name)
        cluster = reader.text("cluster_name") if reader.has("cluster_name") else None
        fixed, count = read_zones(layout)
        nat = layout.choice("nat", NAT)
        services = endpoint_services(layout, "endpoints")
        record = read_flow_log_settings(layout)
        try:
            addresses = plan(layout.text("cidr"), count)
        except AddressSpaceError as error:
            raise ArgumentError(f"{layout.path}.cidr", error.found, f"{error.allowed}; {error.hint}") from None

        super().__init__("agent-environment:index:Network", name, {}, opts)
        self._name, self._labels, self._cluster = name, labels, cluster
        self._child: ChildOptions = child_options(self, opts)
        aws = aws_context(self)
        zones = fixed or self._available(count)

        vpc = ec2.Vpc(
            f"{name}-vpc",
            cidr_block=addresses.vpc,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=self._labels.tags("vpc"),
            opts=self._child(),
        )
        self._close_defaults(vpc)
        gateway = ec2.InternetGateway(
            f"{name}-internet", vpc_id=vpc.id, tags=self._labels.tags("internet"), opts=self._child()
        )
        pinned = fixed is not None
        public = self._subnets(vpc, "public", addresses.public, zones, pinned=pinned)
        self._public_routes(vpc, gateway, public)
        self.private_subnets = self._subnets(vpc, "private", addresses.private, zones, pinned=pinned)
        gateways = self._nat_gateways(gateway, public, 0 if nat == "none" else 1 if nat == "single" else count)
        tables = self._private_routes(vpc, gateways)
        nodes = create_nodes_security_group(labels, self._child, vpc.id, cluster)
        doors = Doors(vpc, self.private_subnets, tables, nodes, services)
        door_group = create_endpoints(doors, self._labels, aws, self._child)
        planned_documents = PlannedDocuments()
        flows = create_flow_logs(
            vpc, record, self._labels, aws, self._child, planned_documents=planned_documents, cluster=cluster
        )

        self.vpc_id = vpc.id
        self.cidr = vpc.cidr_block
        self.zone_names = pulumi.Output.all(*[subnet.availability_zone for subnet in self.private_subnets])
        self.public_subnet_ids = pulumi.Output.all(*[subnet.id for subnet in public])
        self.private_subnets_by_zone = [subnet.id for subnet in self.private_subnets]
        self.private_subnet_ids = pulumi.Output.all(*[subnet.id for subnet in self.private_subnets])
        self.private_route_table_ids = pulumi.Output.all(*[table.id for table in tables])
        self.nodes_security_group_id = nodes.id
        self.endpoints_security_group_id = door_group.id if door_group else pulumi.Output.from_input("")
        self.nat_addresses_by_gateway = [gateway.public_ip for gateway in gateways]
        self.nat_addresses = pulumi.Output.all(*self.nat_addresses_by_gateway)
        self.flow_log_group = flows.group.name
        self.logs_key_arn = flows.key.arn
        self.register_outputs({**component_outputs(self), OUTPUT: planned_documents.entries})

    def _available(self, count: int) -> list[pulumi.Input[str]]:
        """The region's zones by number, once the provider has told them."""
        found = get_availability_zones_output(
            state="available",
            # Local zones and wavelength zones are opted into, and cannot hold what we make.
            filters=[{"name": "opt-in-status", "values": ["opt-in-not-required"]}],
            opts=pulumi.InvokeOptions(parent=self),
        )

        def zone(number: int) -> pulumi.Output[str]:
            def pick(names: Sequence[str]) -> str:
                if len(names) < count:
                    raise ArgumentError(
                        "network.layout.zones",
                        f"{count}, but the region offers {len(names)} ({', '.join(sorted(names))})",
                        f"at most {len(names)}",
                    )
                return sorted(names)[number]

            return found.names.apply(pick)

        return [zone(number) for number in range(count)]

    def _close_defaults(self, vpc: ec2.Vpc) -> None:
        """Take every rule from the group that AWS gives to whatever names none.

        The main route table stays as AWS made it: each subnet has a table of its own, and a subnet that somebody adds
        by hand finds no way out in it. The default network ACL stays open: it has no memory of connections, so it
        could only repeat badly what the groups say.
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
        if self._cluster:
            tags[f"kubernetes.io/cluster/{self._cluster}"] = "shared"
            if kind == "private":
                tags["karpenter.sh/discovery"] = self._cluster
        return [
            ec2.Subnet(
                f"{self._name}-{kind}-{number}",
                vpc_id=vpc.id,
                cidr_block=block,
                availability_zone=zones[number],
                # Gateways and load balancers bring addresses of their own; nothing else is to have a public one.
                map_public_ip_on_launch=False,
                tags=self._labels.tags(f"{kind}-{number}", **tags),
                # With a count, AWS's list of today decides a new subnet's zone. A list that grows or is sorted
                # otherwise tomorrow must not move, and so replace, a subnet that is in use. Names given by hand are
                # meant as they stand.
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
        # AWS attaches addresses and NAT gateways only while the internet gateway is there, and lets it go only after
        # them; neither names it, so the order has to be said.
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
        """A table a zone even where all share one gateway: a gateway a zone is then a changed route, not new tables."""
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
