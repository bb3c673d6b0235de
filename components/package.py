"""The components for other Pulumi languages: turns the dictionaries that arrive from them into plans.

Every component takes the name of an environment and its settings, as a stack file has them under `config`, and the ids
that other components create. In Python use the components themselves, with `agentenv.core.plan.plan`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict, TypeVar, cast

import pulumi

from agentenv.components._lib.arguments import ArgumentError
from agentenv.components.capacity.capacity import Capacity
from agentenv.components.cluster.adopted_cluster import AdoptedCluster
from agentenv.components.cluster.cluster import Cluster
from agentenv.components.cluster.cluster_addons import ClusterAddons
from agentenv.components.cluster.context import ClusterContext
from agentenv.components.cluster.irsa import Issuer
from agentenv.components.cost.cluster_costs import ClusterCosts
from agentenv.components.cost.cost_controls import CostControls
from agentenv.components.environment import Environment
from agentenv.components.gateway.gateway import Gateway
from agentenv.components.gateway.load_balancer import LoadBalancer
from agentenv.components.network.adopted_network import AdoptedNetwork
from agentenv.components.network.network import Network, NetworkContext
from agentenv.components.sandboxes.agent_sandbox import AgentSandbox
from agentenv.components.sandboxes.guardrails import Guardrails
from agentenv.components.sandboxes.sandbox_class import SandboxClass
from agentenv.components.sandboxes.workspace import Workspace
from agentenv.components.service.workspace_service import WorkspaceService
from agentenv.components.storage.adopted_storage import AdoptedStorage
from agentenv.components.storage.home_metering import StorageMetering
from agentenv.components.storage.storage import Storage
from agentenv.config import Mistakes, read
from agentenv.core.classes.plan import ClassPlan
from agentenv.core.plan import ExistingRanges, GatewayPlan, Plan, ServicePlan, plan
from agentenv.core.workspaces.seats import SeatPlan

Part = TypeVar("Part")
Component = TypeVar("Component", bound=pulumi.ComponentResource)
Arguments = Mapping[str, Any]


# Each shape repeats the first two arguments: the schema has no descriptions of inherited ones.
class PlanArgs(TypedDict):
    """The arguments of a component that needs nothing but the settings of its environment."""

    environment: str
    """The name of the environment, such as `dev`: tag `environment`, and the first part of every physical name."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""


class ClusterArgs(TypedDict):
    """The arguments of a cluster."""

    environment: str
    """The name of the environment."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""

    vpc_id: pulumi.Input[str]
    """The VPC."""

    subnet_ids: list[pulumi.Input[str]]
    """The private subnets, one per zone, for its network interfaces and for pods on Fargate."""

    nodes_security_group_id: pulumi.Input[str]
    """The security group of the nodes."""

    endpoints_security_group_id: NotRequired[pulumi.Input[str]]
    """The security group of the network's interface endpoints, if it has any."""

    logs_key_arn: pulumi.Input[str]
    """The KMS key of its log groups."""


class AdoptedClusterArgs(TypedDict):
    """The arguments of an adopted cluster."""

    environment: str
    """The name of the environment."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""

    vpc_id: pulumi.Input[str]
    """The VPC of the cluster."""

    subnet_ids: list[pulumi.Input[str]]
    """The private subnets, one per zone, for pods on Fargate."""

    nodes_security_group_id: pulumi.Input[str]
    """The security group of the environment's nodes."""


class ClusterAddonsArgs(TypedDict):
    """The arguments of the add-ons."""

    environment: str
    """The name of the environment."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""

    file_system_arns: pulumi.Input[list[pulumi.Input[str]]]
    """The file systems in which the EFS CSI driver creates access points."""

    efs_node_role_arn: pulumi.Input[str]
    """The role that mounts them, which their file system policies allow."""


class CapacityArgs(TypedDict):
    """The arguments of capacity."""

    environment: str
    """The name of the environment."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""

    cluster_endpoint: pulumi.Input[str]
    """The endpoint of the cluster's API server."""

    issuer_url: pulumi.Input[str]
    """The URL of its OIDC issuer, which signs service account tokens."""

    issuer_arn: pulumi.Input[str]
    """The ARN of the issuer's IAM OIDC provider."""


class StorageArgs(TypedDict):
    """The arguments of storage."""

    environment: str
    """The name of the environment."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""

    vpc_id: pulumi.Input[str]
    """The VPC of the mount targets."""

    subnet_ids: list[pulumi.Input[str]]
    """The private subnets, one per zone in order; each gets a mount target of every file system."""

    nodes_security_group_id: pulumi.Input[str]
    """The security group of the nodes, which may connect."""

    client_role_arns: NotRequired[pulumi.Input[list[pulumi.Input[str]]]]
    """The roles that may mount, through access points only. Default: none."""

    """The first security group of each Fargate class with declared workspaces, whose pods mount EFS directly."""


class CostControlsArgs(TypedDict):
    """The arguments of cost controls."""

    environment: str
    """The name of the environment."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""

    file_system_ids: NotRequired[pulumi.Input[list[pulumi.Input[str]]]]
    """The file systems on the dashboard. Default: none."""

    log_groups: NotRequired[list[pulumi.Input[str]]]
    """The log groups on the dashboard. Default: none."""


class GuardrailsArgs(TypedDict):
    """The arguments of guardrails."""

    environment: str
    """The name of the environment."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""

    file_system_ids: pulumi.Input[list[str]]
    """The file systems of the environment; only the CSI provisioner creates volumes on them."""


class SandboxClassArgs(TypedDict):
    """The arguments of a sandbox class."""

    environment: str
    """The name of the environment."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""

    sandbox_class: str
    """The name of the class in those settings."""

    issuer_url: pulumi.Input[str]
    """The URL of the cluster's OIDC issuer, which signs service account tokens."""

    issuer_arn: pulumi.Input[str]
    """The ARN of the issuer's IAM OIDC provider."""

    file_system_ids: pulumi.Input[list[str]]
    """The file systems of homes, by shard; as many as in the settings."""

    security_group_ids: NotRequired[pulumi.Input[list[str]]]
    """The security groups of its pods. Required on Fargate."""

    vpc_cidrs: NotRequired[list[str]]
    """The CIDR blocks of an adopted VPC. Default: those of the settings."""

    service_cidr: NotRequired[str]
    """The service CIDR block of an adopted cluster. Default: that of the settings."""


class StorageMeteringArgs(TypedDict):
    """The arguments of storage metering."""

    environment: str
    """The name of the environment."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""

    issuer_url: pulumi.Input[str]
    """The URL of the cluster's OIDC issuer, which signs service account tokens."""

    issuer_arn: pulumi.Input[str]
    """The ARN of the issuer's IAM OIDC provider."""

    file_system_ids: pulumi.Input[list[str]]
    """The file systems of homes, by shard."""


class WorkspaceArgs(TypedDict):
    """The arguments of a declared workspace."""

    environment: str
    """The name of the environment."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""

    seat: str
    """The name of the workspace among those settings."""

    file_system_id: pulumi.Input[str]
    """The file system of its files; it must not change."""

    template: dict[str, Any]
    """The spec that seats of its class are made from."""

    namespace: NotRequired[pulumi.Input[str]]
    """The namespace of its class, as an output that depends on its constraints. Default: assume it exists."""


class GatewayArgs(TypedDict):
    """The arguments of the gateway."""

    environment: str
    """The name of the environment."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""

    place: NotRequired[pulumi.Input[str]]
    """The name of its namespace, as an output that depends on the workspace service."""

    vpc_cidrs: NotRequired[list[str]]
    """The CIDR blocks of an adopted VPC. Default: those of the settings."""


class LoadBalancerArgs(TypedDict):
    """The arguments of the load balancer in front of the gateway."""

    environment: str
    """The name of the environment."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""

    vpc_id: pulumi.Input[str]
    """The VPC."""

    subnet_ids: list[pulumi.Input[str]]
    """The private subnets, in which a load balancer is that is reached from the VPC only."""

    public_subnet_ids: list[pulumi.Input[str]]
    """The public subnets, in which a load balancer is that is reached from the internet."""

    nodes_security_group_id: pulumi.Input[str]
    """The security group of the nodes, on which Envoy runs."""

    vpc_cidrs: NotRequired[list[str]]
    """The CIDR blocks of an adopted VPC. Default: those of the settings."""


class WorkspaceServiceArgs(TypedDict):
    """The arguments of the workspace service."""

    environment: str
    """The name of the environment."""

    settings: dict[str, Any]
    """The settings of the environment, as in a stack file under `config`."""

    issuer_url: pulumi.Input[str]
    """The URL of the cluster's OIDC issuer, which signs service account tokens."""

    issuer_arn: pulumi.Input[str]
    """The ARN of the issuer's IAM OIDC provider."""

    file_system_ids: pulumi.Input[list[str]]
    """The file systems of homes, by shard."""

    class_namespaces: NotRequired[dict[str, pulumi.Input[str]]]
    """The namespace of each class, by the name of the class. Default: none."""

    target_group_arn: NotRequired[pulumi.Input[str]]
    """The target group of the load balancer, in which it registers the pods of the gateway. Default: none."""

    place: NotRequired[pulumi.Input[str]]
    """The name of its namespace, as an output that depends on everything that the service needs."""

    vpc_cidrs: NotRequired[list[str]]
    """The CIDR blocks of an adopted VPC. Default: those of the settings."""

    service_cidr: NotRequired[str]
    """The service CIDR block of an adopted cluster. Default: that of the settings."""

    vpc_id: NotRequired[pulumi.Input[str]]
    """The VPC of sandboxes. Required if a class exchanges tokens, because its role works from there only."""

    nat_addresses: NotRequired[list[pulumi.Input[str]]]
    """The public addresses of NAT gateways. Default: none, so only VPC endpoints are used."""


def _gateway(planned: Plan) -> GatewayPlan:
    return _required(planned.gateway, "no gateway", "settings of a service with an image, a domain and a certificate")


def _plan(args: Arguments) -> Plan:
    """Return the plan of a component's environment; raise an error that has all mistakes in its settings."""
    for key in ("environment", "settings"):
        if isinstance(args[key], pulumi.Output):
            raise ArgumentError(key, "an output of another resource", "a plain value: it decides what is created")
    try:
        settings = read(_whole(args["settings"]), args["environment"])
    except Mistakes as mistakes:
        raise ArgumentError("settings", f"mistakes\n{mistakes}", "settings without mistakes") from None
    return plan(settings, ExistingRanges(tuple(args.get("vpc_cidrs") or ()), args.get("service_cidr") or ""))


def _whole(value: Any) -> Any:
    """Return a value with whole floats as integers: from other languages every number arrives as a float."""
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _network(args: Arguments) -> NetworkContext:
    return NetworkContext(
        args.get("vpc_id") or "",
        args.get("subnet_ids") or (),
        args.get("nodes_security_group_id") or "",
        args.get("logs_key_arn"),
        args.get("endpoints_security_group_id"),
        args.get("nat_addresses") or (),
        args.get("public_subnet_ids") or (),
    )


def _cluster(args: Arguments, planned: Plan) -> ClusterContext:
    output = pulumi.Output.from_input
    groups = {args["sandbox_class"]: args["security_group_ids"]} if args.get("security_group_ids") else {}
    return ClusterContext(
        planned.environment.cluster_name,
        args.get("cluster_endpoint") or "",
        Issuer(output(args["issuer_arn"]), output(args["issuer_url"])),
        pulumi.Output.all(**groups),
        output(args.get("file_system_ids") or []),
    )


def _exported(
    component: type[Component], shape: type, arguments: Callable[[Plan, Any], tuple[Sequence[Any], Mapping[str, Any]]]
) -> type[Component]:
    """Return the component with a constructor that takes a dictionary of this shape.

    `arguments` returns the arguments of the component's own constructor, between its name and its options.
    """

    def construct(self: Component, name: str, args: Any, opts: pulumi.ResourceOptions | None = None) -> None:
        positional, named = arguments(_plan(args), args)
        component.__init__(self, name, *positional, **named, opts=opts)  # pyright: ignore[reportCallIssue] - its own

    construct.__annotations__["args"] = shape
    # The schema has the descriptions in the component's source, which is found by these names.
    of_source = {key: getattr(component, key) for key in ("__module__", "__qualname__", "__doc__", "__annotations__")}
    return cast("type[Component]", type(component.__name__, (component,), {**of_source, "__init__": construct}))


def _named(args: Arguments, *names: str) -> Mapping[str, Any]:
    """Return those of the optional arguments that are set."""
    return {name: args[name] for name in names if args.get(name) is not None}


def _required(part: Part | None, found: str, allowed: str, key: str = "settings") -> Part:
    """Return a part of the plan; raise an error if the plan does not have it."""
    if part is None:
        raise ArgumentError(key, found, allowed)
    return part


def _class(planned: Plan, args: Arguments) -> ClassPlan:
    names = ", ".join(planned.classes) or "a class of the settings, which have none"
    sandbox_class = _required(
        planned.classes.get(args["sandbox_class"]), f"'{args['sandbox_class']}'", names, "sandboxClass"
    )
    if sandbox_class.on_fargate and not args.get("security_group_ids"):
        raise ArgumentError("securityGroupIds", "nothing", "security groups, required on Fargate")
    return sandbox_class


def _seat(planned: Plan, args: Arguments) -> SeatPlan:
    names = ", ".join(seat.name for seat in planned.seats) or "a workspace of the settings, which have none"
    seat = next((seat for seat in planned.seats if seat.name == args["seat"]), None)
    return _required(seat, f"'{args['seat']}'", names, "seat")


def _service(planned: Plan, args: Arguments) -> ServicePlan:
    service = _required(planned.service, "no image of the service", "service.image with a digest")
    if not args.get("vpc_id") and any(each.identity.kind == "exchange" for each in service.settings.sandbox_classes):
        raise ArgumentError("vpcId", "nothing", "the VPC that exchanged roles work from")
    return service


def _storage(planned: Plan, args: Arguments) -> tuple[Sequence[Any], Mapping[str, Any]]:
    return (planned.storage, _network(args)), _named(args, "client_role_arns")


EXPORTED_COMPONENTS: list[type[pulumi.ComponentResource]] = [
    _exported(AdoptedCluster, AdoptedClusterArgs, lambda planned, args: ((planned.cluster, _network(args)), {})),
    _exported(AdoptedNetwork, PlanArgs, lambda planned, _: ((planned.network,), {})),
    _exported(AdoptedStorage, StorageArgs, _storage),
    _exported(AgentSandbox, PlanArgs, lambda planned, _: ((planned.sandbox_controller,), {})),
    _exported(Capacity, CapacityArgs, lambda planned, args: ((planned.capacity, _cluster(args, planned)), {})),
    _exported(Cluster, ClusterArgs, lambda planned, args: ((planned.cluster, _network(args)), {})),
    _exported(
        ClusterAddons,
        ClusterAddonsArgs,
        lambda planned, args: ((planned.cluster, args["file_system_arns"], args["efs_node_role_arn"]), {}),
    ),
    _exported(
        ClusterCosts,
        PlanArgs,
        lambda planned, _: ((_required(planned.metering, "no metering in the cluster", "cost.dashboards: true"),), {}),
    ),
    _exported(
        CostControls,
        CostControlsArgs,
        lambda planned, args: ((planned.costs,), _named(args, "file_system_ids", "log_groups")),
    ),
    _exported(Environment, PlanArgs, lambda planned, _: ((planned,), {})),
    _exported(
        Gateway,
        GatewayArgs,
        lambda planned, args: ((_gateway(planned),), _named(args, "place")),
    ),
    _exported(Guardrails, GuardrailsArgs, lambda planned, args: ((planned.guardrails, args["file_system_ids"]), {})),
    _exported(LoadBalancer, LoadBalancerArgs, lambda planned, args: ((_gateway(planned), _network(args)), {})),
    _exported(Network, PlanArgs, lambda planned, _: ((planned.network,), {})),
    _exported(
        SandboxClass, SandboxClassArgs, lambda planned, args: ((_class(planned, args), _cluster(args, planned)), {})
    ),
    _exported(Storage, StorageArgs, _storage),
    _exported(
        StorageMetering,
        StorageMeteringArgs,
        lambda planned, args: (
            (
                _required(
                    planned.home_metering,
                    "no homes to measure",
                    "settings with homes, a service with an image, and cost.storageMetering.enabled",
                ),
                _cluster(args, planned),
            ),
            {},
        ),
    ),
    _exported(
        Workspace,
        WorkspaceArgs,
        lambda planned, args: (
            (_seat(planned, args), planned.environment),
            _named(args, "file_system_id", "template", "namespace"),
        ),
    ),
    _exported(
        WorkspaceService,
        WorkspaceServiceArgs,
        lambda planned, args: (
            (_service(planned, args), _cluster(args, planned), _network(args)),
            _named(args, "class_namespaces", "target_group_arn", "place"),
        ),
    ),
]
