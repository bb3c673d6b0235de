"""An engine's monitor for these tests: it answers registrations by echoing them, and remembers everything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import provider_pb2, resource_pb2, resource_pb2_grpc

from agentenv.core.capabilities.unknown_values import UNKNOWN_STRING
from agentenv.rehearsal.providers.eks.servicer import Servicer

PREFIX = "urn:pulumi:dev::t3::"
SIGNATURE = "4dabf18193072939515e22adb298388d"
RESOURCE = "5cf8f73096256a8f31e491e813e4eb8e"
OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
FEATURES = (
    resource_pb2.RESOURCE_MONITOR_FEATURE_SECRETS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_REFERENCES,
    resource_pb2.RESOURCE_MONITOR_FEATURE_OUTPUT_VALUES,
    resource_pb2.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS,
)
ENDPOINT = "https://127.0.0.1:16443"
# What only EKS knows of a cluster.
CLUSTER: Mapping[str, Any] = {
    "endpoint": ENDPOINT,
    "certificateAuthority": {"data": "QUJD"},
    "identities": [{"oidcs": [{"issuer": "https://oidc.eks.us-east-1.amazonaws.com/id/ABC"}]}],
}


def plain(value: struct_pb2.Struct | struct_pb2.Value) -> Any:
    return json_format.MessageToDict(value)


def known(value: Any) -> Any:
    """A value without what marks outputs and secrets; a resource as its id, as most providers get it."""
    if isinstance(value, list):
        return [known(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value.get(SIGNATURE):
        case signature if signature in {OUTPUT, SECRET}:
            return known(value.get("value", UNKNOWN_STRING))
        case signature if signature == RESOURCE:
            return value.get("id", value["urn"])
        case _:
            return {key: known(item) for key, item in value.items()}


@dataclass(frozen=True)
class Registered:
    """A resource as it was registered."""

    urn: str
    inputs: dict[str, Any]
    sent: dict[str, Any]
    depends: frozenset[str]
    ignoring: tuple[str, ...]
    custom: bool
    provider: str
    version: str


@dataclass
class Monitor(resource_pb2_grpc.ResourceMonitorServicer):
    """The monitor's side of the protocol, as far as components need it."""

    dry: bool = False
    functions: list[dict[str, Any]] = field(default_factory=list)
    asked_of: list[str] = field(default_factory=list)
    registered: dict[str, Registered] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    # -- the protocol -------------------------------------------------------------------------------------------------

    def GetDeploymentInfo(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - the protocol's name and arguments
        return resource_pb2.DeploymentInfo(supportedFeatures=FEATURES)

    def RegisterResource(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see GetDeploymentInfo
        parent = request.parent.removeprefix(PREFIX).rpartition("::")[0]
        urn = f"{parent}${request.type}::{request.name}" if parent else f"{request.type}::{request.name}"
        sent = plain(request.object)
        inputs = known(sent)
        with self.lock:
            self.registered[urn] = Registered(
                urn,
                inputs,
                sent,
                frozenset(dependency.removeprefix(PREFIX) for dependency in request.dependencies),
                tuple(request.ignoreChanges),
                request.custom,
                request.provider or dict(request.providers).get("aws", ""),
                request.version,
            )
        answer = resource_pb2.RegisterResourceResponse(urn=PREFIX + urn)
        if request.custom:
            answer.id = UNKNOWN_STRING if self.dry else request.name
            outputs = self._outputs_of(request, inputs)
            hidden = {key for key, value in sent.items() if isinstance(value, dict) and value.get("secret")}
            hidden |= {key for key, value in sent.items() if isinstance(value, dict) and value.get(SIGNATURE) == SECRET}
            outputs |= {key: {SIGNATURE: SECRET, "value": outputs[key]} for key in hidden}
            answer.object.CopyFrom(json_format.ParseDict(outputs, struct_pb2.Struct()))
        return answer

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see GetDeploymentInfo
        with self.lock:
            self.outputs[request.urn.removeprefix(PREFIX)] = plain(request.outputs)
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802 - see GetDeploymentInfo
        arguments = plain(request.args)
        answer = provider_pb2.InvokeResponse()
        if request.tok == "pulumi:pulumi:getResource":
            found = self._state(arguments["urn"].removeprefix(PREFIX))
        else:
            with self.lock:
                self.functions.append({"function": request.tok, "args": known(arguments)})
                self.asked_of.append(request.provider)
            try:
                found = self.answers[request.tok](known(arguments))
            except LookupError as error:
                context.set_code(grpc.StatusCode.UNKNOWN)
                context.set_details(f"{request.tok}: {error}")
                return answer
        getattr(answer, "return").CopyFrom(json_format.ParseDict(found, struct_pb2.Struct()))
        return answer

    def _outputs_of(self, request: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        """A provider's answer: what it was given; and what AWS adds, unless this is a preview."""
        out = dict(inputs)
        if self.dry:
            return out
        out["arn"] = f"arn:aws:x:us-east-1:123456789012:{request.name}"
        if request.type == "aws:eks/cluster:Cluster":
            out |= {"name": inputs.get("name", request.name), **CLUSTER}
            out["vpcConfig"] = {**inputs["vpcConfig"], "clusterSecurityGroupId": "sg-cluster"}
        return out

    def _state(self, urn: str) -> dict[str, Any]:
        state = self.outputs.get(urn) or self.registered[urn].inputs
        if urn in self.registered and self.registered[urn].custom:
            state = {**state, "arn": f"arn:aws:x:us-east-1:123456789012:{urn.rpartition('::')[2]}"}
            if "aws:eks/cluster:Cluster" in urn:
                state |= {"name": urn.rpartition("::")[2], **CLUSTER}
        return {"urn": PREFIX + urn, "id": urn.rpartition("::")[2], "state": state}

    def has(self, urn: str) -> None:
        """A resource that the program registered before; where its package is imported, the SDK reads it back."""
        self.registered[urn] = Registered(urn, {}, {}, frozenset(), (), custom=True, provider="", version="")

    # -- what tests read ----------------------------------------------------------------------------------------------

    def created(self) -> list[tuple[str, str, dict[str, Any]]]:
        """(type with its parents, name, inputs) of each resource that a provider of AWS would create."""
        return [
            (*urn.split("::"), resource.inputs)  # type: ignore[misc] - a URN without its prefix has two parts
            for urn, resource in self.registered.items()
            if resource.custom and "pulumi:providers" not in urn
        ]

    def resource(self, ending: str) -> Registered:
        """The resource whose URN ends so."""
        (found,) = [resource for urn, resource in self.registered.items() if urn.endswith(ending)]
        return found


@dataclass
class Bench:
    """The stand-in in front of a monitor."""

    monitor: Monitor
    address: str
    servicer: Servicer = field(default_factory=lambda: Servicer("4.4.0", {"aws": "7.51.1"}))

    def construct(
        self,
        kind: str,
        name: str,
        inputs: Mapping[str, Any],
        *,
        depends: Sequence[str] = (),
        providers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Ask for a component; returns its state."""
        request = provider_pb2.ConstructRequest(
            project="t3",
            stack="dev",
            type=kind,
            name=name,
            dryRun=self.monitor.dry,
            monitorEndpoint=self.address,
            inputs=json_format.ParseDict(dict(inputs), struct_pb2.Struct()),
            dependencies=[PREFIX + name for name in depends],
            providers=dict(providers or {}),
            accepts_output_values=True,
        )
        for key, urns in _dependencies(inputs).items():
            request.inputDependencies[key].urns.extend(urns)
        answer = self.servicer.Construct(request, Context())
        return plain(answer.state)

    def call(self, token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a component's method."""
        request = provider_pb2.CallRequest(
            tok=token,
            args=json_format.ParseDict(dict(arguments), struct_pb2.Struct()),
            project="t3",
            stack="dev",
            monitorEndpoint=self.address,
        )
        return plain(getattr(self.servicer.Call(request, Context()), "return"))


class Aborted(Exception):
    """The stand-in said no."""


class Context:
    """A call's context that raises what the engine would be told."""

    def abort(self, _: grpc.StatusCode, details: str) -> None:
        raise Aborted(details)


def of(urn: str, value: Any) -> dict[str, Any]:
    """A value that came from a resource."""
    return {SIGNATURE: OUTPUT, "value": value, "dependencies": [PREFIX + urn]}


def unknown(urn: str) -> dict[str, Any]:
    """A value that a resource does not have yet."""
    return {SIGNATURE: OUTPUT, "dependencies": [PREFIX + urn]}


def reference(urn: str, name: str | None = None) -> dict[str, Any]:
    """Another resource as an input."""
    return {SIGNATURE: RESOURCE, "urn": PREFIX + urn, **({"id": name} if name else {})}


def _dependencies(inputs: Mapping[str, Any]) -> dict[str, list[str]]:
    def found(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = value.get("dependencies", []) if value.get(SIGNATURE) == OUTPUT else []
            return [*own, *(urn for item in value.values() for urn in found(item))]
        return [urn for item in value for urn in found(item)] if isinstance(value, list) else []

    return {key: sorted(set(urns)) for key, value in inputs.items() if (urns := found(value))}


def serving(monitor: Monitor) -> tuple[grpc.Server, str]:
    """The monitor on a free loopback port."""
    server = grpc.server(ThreadPoolExecutor(32))
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(monitor, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"
