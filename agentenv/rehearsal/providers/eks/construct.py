"""Building a component when the engine asks for one, by the SDK's own way of serving components."""

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
from agentenv.rehearsal.providers.eks.children import Maker, found_again
from agentenv.rehearsal.providers.eks.cluster import Cluster
from agentenv.rehearsal.providers.eks.inputs import REFUSED, RESOURCES, SHAPES, Refused, refuse_strangers
from agentenv.rehearsal.providers.eks.kubeconfig import kubeconfig, region_of, text
from agentenv.rehearsal.providers.eks.resource_references import Reference, inner, taken

METHOD: Final = "eks:index:Cluster/getKubeconfig"
_LOOK: Final = 0.2  # seconds; a cluster may be waited for for minutes, and a cancelled run must not be
_NO_CONTEXT: Final[Any] = None  # the SDK only uses it for refused inputs, which are `Refused` here


@dataclass(frozen=True)
class Wanted:
    """A component that is asked for."""

    name: str
    given: Mapping[str, Any]
    others: Mapping[str, Reference]
    versions: Mapping[str, str]
    options: pulumi.ResourceOptions

    def other(self, kind: str, name: str) -> Reference:
        """A resource without which there is no such component."""
        if name not in self.others:
            raise Refused(f"{kind} {self.name}: {name} is missing")
        return self.others[name]


Built = tuple[pulumi.ComponentResource, Mapping[str, Any]]


def _cluster(asked: Wanted) -> Built:
    made = Cluster(asked.name, asked.given, asked.others, asked.versions, asked.options)
    return made, made.outputs


def _addon(asked: Wanted) -> Built:
    cluster = asked.other("eks:index:Addon", "cluster")
    made = Addon(asked.name, asked.given, cluster, asked.versions, asked.options)
    return made, made.outputs


def _vpc_cni(asked: Wanted) -> Built:
    if not asked.given.get("addonVersion") and not asked.given.get("clusterVersion"):
        raise Refused(f"eks:index:VpcCniAddon {asked.name}: neither addonVersion nor clusterVersion is set; set one")
    if not asked.given.get("clusterName"):
        raise Refused(f"eks:index:VpcCniAddon {asked.name}: clusterName is missing")
    made = VpcCniAddon(asked.name, asked.given, asked.versions, asked.options)
    return made, made.outputs


def _node_group(asked: Wanted) -> Built:
    kind = "eks:index:NodeGroupSecurityGroup"
    group = found_again(asked.other(kind, "clusterSecurityGroup").urn, ())
    cluster = found_again(asked.other(kind, "eksCluster").urn, ("name",))
    made = pulumi.ComponentResource(kind, asked.name, {}, asked.options)
    tags = security_groups.node_tags(asked.name, cluster.out("name"), asked.given.get("tags"))
    maker = Maker(made, asked.versions)
    nodes, entrance = security_groups.node_group(maker, asked.name, asked.given.get("vpcId"), tags, group.id)
    made.register_outputs({})
    return made, {"securityGroup": nodes, "securityGroupRule": entrance}


TABLE: Final[Mapping[str, Callable[[Wanted], Built]]] = {
    "eks:index:Addon": _addon,
    "eks:index:Cluster": _cluster,
    "eks:index:NodeGroupSecurityGroup": _node_group,
    "eks:index:VpcCniAddon": _vpc_cni,
}


@dataclass(frozen=True)
class Desk:
    """What a plugin process builds components with."""

    version: str
    versions: Mapping[str, str]
    engine: str
    leaving: threading.Event

    def construct(self, request: Any) -> Any:
        """Answer the engine's request for a component."""
        where = f"{request.type} {request.name}"
        if request.type in REFUSED:
            raise Refused(f"{where}: {REFUSED[request.type]}")
        if request.type not in TABLE:
            raise Refused(f"{where}: the stand-in eks provider has {', '.join(sorted(TABLE))}")
        asked = provider_pb2.ConstructRequest()
        asked.CopyFrom(request)
        servicer = self._serving(taken(where, asked.inputs, RESOURCES.get(request.type, ())))
        return self._in_a_loop_of_its_own(where, lambda: servicer.Construct(asked, _NO_CONTEXT))

    def call(self, request: Any) -> Any:
        """Answer the call of a component's method."""
        if request.tok != METHOD:
            raise Refused(f"{request.tok}: the stand-in eks provider has the method {METHOD}")
        asked = provider_pb2.CallRequest()
        asked.CopyFrom(request)
        servicer = self._serving(taken(request.tok, asked.args, ("__self__",)))
        return self._in_a_loop_of_its_own(request.tok, lambda: servicer.Call(asked, _NO_CONTEXT))

    def _serving(self, others: Mapping[str, Reference]) -> ProviderServicer:
        return ProviderServicer(_Components(self.version, self.versions, others), [], self.engine)

    def _in_a_loop_of_its_own(self, where: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """The SDK keeps who it speaks to in context variables; each component gets a context and a loop of its own."""

        async def run() -> Any:
            building = asyncio.ensure_future(work())
            while not building.done():
                if self.leaving.is_set():
                    building.cancel()
                    raise Refused(f"{where}: it was cancelled before it was whole")
                await asyncio.wait({building}, timeout=_LOOK)
            return building.result()

        return contextvars.Context().run(asyncio.run, run())


class _Components(sdk.Provider):
    """The SDK's side of the provider, for one request."""

    def __init__(self, version: str, versions: Mapping[str, str], others: Mapping[str, Reference]) -> None:
        super().__init__(version)
        self._versions, self._others = versions, others

    def construct(
        self, name: str, resource_type: str, inputs: pulumi.Inputs, options: pulumi.ResourceOptions | None = None
    ) -> sdk.ConstructResult:
        given = {key: value for key, value in inputs.items() if value is not None}
        refuse_strangers(f"{resource_type} {name}", SHAPES[resource_type], given)
        asked = Wanted(name, given, self._others, self._versions, options or pulumi.ResourceOptions())
        component, outputs = TABLE[resource_type](asked)
        return sdk.ConstructResult(component.urn, outputs)

    def call(self, token: str, args: pulumi.Inputs) -> sdk.CallResult:
        if strangers := set(args) - {"profileName", "roleArn"}:
            raise Refused(f"{token}: {', '.join(sorted(strangers))} is not known; it takes profileName and roleArn")
        if "__self__" not in self._others:
            raise Refused(f"{token}: it is called on no cluster")
        cluster = self._others["__self__"].urn

        async def made(who: Mapping[str, Any]) -> pulumi.Output[str]:
            found = found_again(await inner(cluster, "eksCluster"), ("arn", "certificateAuthority", "endpoint", "name"))
            authority = found.within("certificateAuthority", "data")
            return pulumi.Output.all(found.out("name"), found.out("endpoint"), authority, found.out("arn")).apply(
                lambda known: text(
                    kubeconfig(
                        cluster=known[0],
                        endpoint=known[1],
                        authority=known[2],
                        region=region_of(known[3]),
                        role=who["roleArn"],
                        profile=who["profileName"],
                    )
                )
            )

        who = pulumi.Output.all(roleArn=args.get("roleArn"), profileName=args.get("profileName"))
        return sdk.CallResult({"result": who.apply(made)})
