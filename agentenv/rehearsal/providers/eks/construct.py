"""Construct components on the engine's request, with the SDK's own component servicer."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi
from pulumi import provider as sdk
from pulumi.provider.server import ProviderServicer
from pulumi.runtime.proto import provider_pb2

from agentenv.rehearsal.providers.eks import security_groups
from agentenv.rehearsal.providers.eks.addons import Addon, VpcCniAddon
from agentenv.rehearsal.providers.eks.children import ChildFactory, existing_resource
from agentenv.rehearsal.providers.eks.cluster import Cluster
from agentenv.rehearsal.providers.eks.inputs import (
    RESOURCES,
    SHAPES,
    UNSUPPORTED_TYPES,
    UnsupportedInputs,
    check_known_inputs,
)
from agentenv.rehearsal.providers.eks.kubeconfig import kubeconfig, region_of, to_json
from agentenv.rehearsal.providers.eks.resource_references import Reference, extract_references, output_resource_urn

METHOD: Final = "eks:index:Cluster/getKubeconfig"
_POLL_INTERVAL: Final = 0.2  # seconds; a wait for a cluster may take minutes, and must end when the run is cancelled
_NO_CONTEXT: Final[Any] = None  # the SDK only uses it for invalid inputs, which are `Refused` here


@dataclass(frozen=True)
class ComponentRequest:
    """A request for a component."""

    name: str
    args: Mapping[str, Any]
    references: Mapping[str, Reference]
    versions: Mapping[str, str]
    options: pulumi.ResourceOptions

    def reference(self, kind: str, name: str) -> Reference:
        """Return a resource that the component requires."""
        if name not in self.references:
            raise UnsupportedInputs(f"{kind} {self.name}: {name} is missing")
        return self.references[name]


Constructed = tuple[pulumi.ComponentResource, Mapping[str, Any]]


def _cluster(request: ComponentRequest) -> Constructed:
    component = Cluster(request.name, request.args, request.references, request.versions, request.options)
    return component, component.outputs


def _addon(request: ComponentRequest) -> Constructed:
    cluster = request.reference("eks:index:Addon", "cluster")
    component = Addon(request.name, request.args, cluster, request.versions, request.options)
    return component, component.outputs


def _vpc_cni(request: ComponentRequest) -> Constructed:
    if not request.args.get("addonVersion") and not request.args.get("clusterVersion"):
        raise UnsupportedInputs(
            f"eks:index:VpcCniAddon {request.name}: neither addonVersion nor clusterVersion is set; set one"
        )
    if not request.args.get("clusterName"):
        raise UnsupportedInputs(f"eks:index:VpcCniAddon {request.name}: clusterName is missing")
    component = VpcCniAddon(request.name, request.args, request.versions, request.options)
    return component, component.outputs


def _node_group(request: ComponentRequest) -> Constructed:
    kind = "eks:index:NodeGroupSecurityGroup"
    group = existing_resource(request.reference(kind, "clusterSecurityGroup").urn, ())
    cluster = existing_resource(request.reference(kind, "eksCluster").urn, ("name",))
    component = pulumi.ComponentResource(kind, request.name, {}, request.options)
    tags = security_groups.node_tags(request.name, cluster.output("name"), request.args.get("tags"))
    factory = ChildFactory(component, request.versions)
    nodes, ingress_rule = security_groups.node_group(factory, request.name, request.args.get("vpcId"), tags, group.id)
    component.register_outputs({})
    return component, {"securityGroup": nodes, "securityGroupRule": ingress_rule}


TABLE: Final[Mapping[str, Callable[[ComponentRequest], Constructed]]] = {
    "eks:index:Addon": _addon,
    "eks:index:Cluster": _cluster,
    "eks:index:NodeGroupSecurityGroup": _node_group,
    "eks:index:VpcCniAddon": _vpc_cni,
}


@dataclass(frozen=True)
class ComponentBuilder:
    """Builds the components of one plugin process."""

    version: str
    versions: Mapping[str, str]
    engine: str
    stopping: threading.Event

    def construct(self, request: Any) -> Any:
        """Handle a Construct request."""
        subject = f"{request.type} {request.name}"
        if request.type in UNSUPPORTED_TYPES:
            raise UnsupportedInputs(f"{subject}: {UNSUPPORTED_TYPES[request.type]}")
        if request.type not in TABLE:
            raise UnsupportedInputs(f"{subject}: the stand-in eks provider has {', '.join(sorted(TABLE))}")
        copy = provider_pb2.ConstructRequest()
        copy.CopyFrom(request)
        servicer = self._servicer(extract_references(subject, copy.inputs, RESOURCES.get(request.type, ())))
        return self._run_in_new_loop(subject, lambda: servicer.Construct(copy, _NO_CONTEXT))

    def call(self, request: Any) -> Any:
        """Handle a Call request: a method of a component."""
        if request.tok != METHOD:
            raise UnsupportedInputs(f"{request.tok}: the stand-in eks provider has the method {METHOD}")
        copy = provider_pb2.CallRequest()
        copy.CopyFrom(request)
        servicer = self._servicer(extract_references(request.tok, copy.args, ("__self__",)))
        return self._run_in_new_loop(request.tok, lambda: servicer.Call(copy, _NO_CONTEXT))

    def _servicer(self, references: Mapping[str, Reference]) -> ProviderServicer:
        return ProviderServicer(_Components(self.version, self.versions, references), [], self.engine)

    def _run_in_new_loop(self, subject: str, handler: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a request in its own context and event loop: the SDK keeps its connections in context variables."""

        async def run() -> Any:
            task = asyncio.ensure_future(handler())
            while not task.done():
                if self.stopping.is_set():
                    task.cancel()
                    raise UnsupportedInputs(f"{subject}: it was cancelled before it was complete")
                await asyncio.wait({task}, timeout=_POLL_INTERVAL)
            return task.result()

        return contextvars.Context().run(asyncio.run, run())


class _Components(sdk.Provider):
    """The SDK's provider for one request."""

    def __init__(self, version: str, versions: Mapping[str, str], references: Mapping[str, Reference]) -> None:
        super().__init__(version)
        self._versions, self._references = versions, references

    def construct(
        self, name: str, resource_type: str, inputs: pulumi.Inputs, options: pulumi.ResourceOptions | None = None
    ) -> sdk.ConstructResult:
        args = {key: value for key, value in inputs.items() if value is not None}
        check_known_inputs(f"{resource_type} {name}", SHAPES[resource_type], args)
        request = ComponentRequest(name, args, self._references, self._versions, options or pulumi.ResourceOptions())
        component, outputs = TABLE[resource_type](request)
        return sdk.ConstructResult(component.urn, outputs)

    def call(self, token: str, args: pulumi.Inputs) -> sdk.CallResult:
        if unknown := set(args) - {"profileName", "roleArn"}:
            raise UnsupportedInputs(
                f"{token}: {', '.join(sorted(unknown))} is not known; it takes profileName and roleArn"
            )
        if "__self__" not in self._references:
            raise UnsupportedInputs(f"{token}: it needs a cluster")
        cluster = self._references["__self__"].urn

        async def create(credentials: Mapping[str, Any]) -> pulumi.Output[str]:
            eks_cluster = existing_resource(
                await output_resource_urn(cluster, "eksCluster"), ("arn", "certificateAuthority", "endpoint", "name")
            )
            authority = eks_cluster.output_at("certificateAuthority", "data")
            return pulumi.Output.all(
                eks_cluster.output("name"), eks_cluster.output("endpoint"), authority, eks_cluster.output("arn")
            ).apply(
                lambda known: to_json(
                    kubeconfig(
                        cluster=known[0],
                        endpoint=known[1],
                        authority=known[2],
                        region=region_of(known[3]),
                        role=credentials["roleArn"],
                        profile=credentials["profileName"],
                    )
                )
            )

        credentials = pulumi.Output.all(roleArn=args.get("roleArn"), profileName=args.get("profileName"))
        return sdk.CallResult({"result": credentials.apply(create)})
