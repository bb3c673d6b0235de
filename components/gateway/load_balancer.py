"""The network load balancer of an environment: one listener with TLS, and the addresses of Envoy's pods as targets.

It terminates TLS, offers HTTP/2 to callers (ALPN), and passes the address of a caller on by the PROXY protocol. The
service's loops register the targets, so no controller with rights in the whole cluster is needed for two addresses
(docs/decisions/gateway-load-balancer.md).
"""

import pulumi
from pulumi_aws import ec2, lb, route53
from pulumi_aws import vpc as rules

from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.security_group_rules import GroupRules, Traffic
from agentenv.components._lib.tags import Labels
from agentenv.components.network.network import NetworkContext
from agentenv.core.gateway.envoy import HTTP_PORT, READY_PATH, STATUS_PORT
from agentenv.core.plan import GatewayPlan

TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"
# A target that ends still has open streams; they end with it.
DEREGISTRATION_SECONDS = 120
_PORTS = {"http": HTTP_PORT, "status": STATUS_PORT}


class LoadBalancer(pulumi.ComponentResource):
    """The load balancer with its security group, listener and target group, and the records of its domains."""

    address: pulumi.Output[str]
    """Its DNS name, the target of the records of `hosts`."""

    target_group_arn: pulumi.Output[str]
    """The target group, in which the service registers the pods of Envoy."""

    hosts: pulumi.Output[list[str]]
    """The hosts whose records lead here; some begin with `*.`."""

    def __init__(
        self, name: str, plan: GatewayPlan, network: NetworkContext, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Create it in the public subnets if its domain is reachable from the internet, else in the private ones."""
        super().__init__("agent-environment:index:LoadBalancer", name, {}, opts)
        self._name, self._plan, self._labels = name, plan, Labels.of(plan.environment, "gateway", name)
        self._child: ChildOptions = child_options(self, opts)
        group = self._security_group(network)
        balancer = lb.LoadBalancer(
            f"{name}-balancer",
            name=self._labels.name("load-balancer", "balancer"),
            load_balancer_type="network",
            internal=plan.internal,
            subnets=network.subnet_ids if plan.internal else network.public_subnet_ids,
            security_groups=[group.id],
            # Otherwise callers in a zone without a pod of Envoy would get no response.
            enable_cross_zone_load_balancing=True,
            tags=self._labels.tags("balancer"),
            opts=self._child(),
        )
        targets = self._targets(network)
        listener = lb.Listener(
            f"{name}-https",
            load_balancer_arn=balancer.arn,
            port=443,
            protocol="TLS",
            ssl_policy=TLS_POLICY,
            certificate_arn=plan.certificate,
            alpn_policy="HTTP2Preferred",
            default_actions=[{"type": "forward", "target_group_arn": targets.arn}],
            tags=self._labels.tags("https"),
            opts=self._child(),
        )
        self._records(balancer)
        self.address = balancer.dns_name
        # Health checks begin when a listener uses the group.
        self.target_group_arn = pulumi.Output.all(targets.arn, listener.id).apply(lambda ids: ids[0])
        self.hosts = pulumi.Output.from_input(list(plan.hosts))
        self.register_outputs(component_outputs(self))

    def _security_group(self, network: NetworkContext) -> ec2.SecurityGroup:
        """Create its security group: callers reach 443, and it reaches Envoy's ports on nodes and nothing else."""
        group = ec2.SecurityGroup(
            f"{self._name}-group",
            name=self._labels.name("security-group", "group"),
            description="The load balancer of the gateway",
            vpc_id=network.vpc_id,
            tags=self._labels.tags("group"),
            opts=self._child(),
        )
        for number, cidr in enumerate(self._plan.callers):
            rules.SecurityGroupIngressRule(
                f"{self._name}-callers-{number}",
                security_group_id=group.id,
                cidr_ipv4=cidr,
                ip_protocol="tcp",
                from_port=443,
                to_port=443,
                description="Callers of the service and of workspaces",
                tags=self._labels.tags(f"callers-{number}"),
                opts=self._child(),
            )
        nodes = network.nodes_security_group_id
        group_rules = GroupRules(self._labels, self._child)
        for suffix, port in _PORTS.items():
            traffic = Traffic("Envoy, from the load balancer of the gateway", ports=(port, port))
            group_rules.egress(f"to-{suffix}", group.id, nodes, traffic)
            group_rules.ingress(f"from-{suffix}", nodes, group.id, traffic)
        return group

    def _targets(self, network: NetworkContext) -> lb.TargetGroup:
        return lb.TargetGroup(
            f"{self._name}-targets",
            name=self._labels.name("target-group", "targets"),
            vpc_id=network.vpc_id,
            target_type="ip",
            protocol="TCP",
            port=HTTP_PORT,
            proxy_protocol_v2=True,
            # The PROXY protocol has it, and the security group of nodes can name the balancer's.
            preserve_client_ip="false",
            deregistration_delay=DEREGISTRATION_SECONDS,
            connection_termination=True,
            health_check={
                "protocol": "HTTP",
                "port": str(STATUS_PORT),
                "path": READY_PATH,
                "matcher": "200",
                "interval": 10,
                "timeout": 5,
                "healthy_threshold": 2,
                "unhealthy_threshold": 2,
            },
            tags=self._labels.tags("targets"),
            opts=self._child(),
        )

    def _records(self, balancer: lb.LoadBalancer) -> None:
        """Create the records of the domains, in the hosted zones that the settings name."""
        for number, (host, zone) in enumerate(self._plan.records):
            route53.Record(
                f"{self._name}-record-{number}",
                zone_id=zone,
                name=host,
                type="A",
                aliases=[{"name": balancer.dns_name, "zone_id": balancer.zone_id, "evaluate_target_health": False}],
                opts=self._child(),
            )
