"""A recording of what a program registers with the engine: types, inputs, parents and options."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch
from weakref import WeakSet

import grpc
import pulumi
from google.protobuf import json_format, struct_pb2
from pulumi.runtime import mocks, resource, resource_cycle_breaker, rpc
from pulumi.runtime.proto import resource_pb2, source_pb2
from pulumi.runtime.settings import SETTINGS
from pulumi.runtime.stack import run_pulumi_func

from agentenv.components.cluster import api_authorization
from agentenv.core.capabilities.unknown_values import UNKNOWN as NOT_KNOWN
from agentenv.policies.view.resource import Resource
from agentenv.rehearsal.providers.aws.functions import FILTERS_ONLY

ACCOUNT, REGION = "123456789012", "eu-west-1"
CALLER = f"arn:aws:iam::{ACCOUNT}:role/ci/pipeline"
ZONES = ["eu-west-1c", "eu-west-1a", "eu-west-1b", "eu-west-1d", "eu-west-1e"]
UNKNOWN = rpc.UNKNOWN


@dataclass(frozen=True)
class RegisteredResource:
    """One resource, as it was registered."""

    type: str
    name: str
    urn: str
    parent: str
    inputs: dict[str, Any]
    after: frozenset[str]
    protect: bool | None
    retain: bool | None
    ignored: list[str]
    provider: str
    aliases: int
    deletion_timeout: dict[str, str] = field(default_factory=dict)
    providers: dict[str, str] = field(default_factory=dict)
    delete_first: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Type and name: what an engine knows a resource by, under one parent."""
        return self.type, self.name

    def policy(self, of: str = "policy") -> dict[str, Any]:
        """A policy document among its inputs."""
        return json.loads(self.inputs[of])


@dataclass
class Graph:
    """All registered resources in their order, and the functions that were invoked."""

    resources: list[RegisteredResource] = field(default_factory=list)
    invokes: list[tuple[str, str]] = field(default_factory=list)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)  # of components, by URN
    result: Any = None

    def of(self, type_: str) -> list[RegisteredResource]:
        """Return the resources of a type, or of a type that ends with this word."""
        return [
            resource
            for resource in self.resources
            if resource.type == type_ or resource.type.rsplit(":", 1)[-1] == type_
        ]

    def resource(self, type_: str, name: str = "") -> RegisteredResource:
        """Return the only resource of a type, or the only one with a name that ends so."""
        found = [resource for resource in self.of(type_) if resource.name.endswith(name)]
        assert len(found) == 1, f"{len(found)} of {type_} {name}: {[resource.name for resource in found]}"
        return found[0]

    def comes_before(self, first: RegisteredResource, second: RegisteredResource) -> bool:
        """Return whether the second depends on the first, directly or through others, or by its provider."""
        by_urn = {resource.urn: resource for resource in self.resources}
        waiting, seen = [second], set[str]()
        while waiting:
            resource = waiting.pop()
            providers = [resource.provider, *resource.providers.values()]
            for urn in (*resource.after, *(provider.rpartition("::")[0] for provider in providers)):
                if urn == first.urn:
                    return True
                if urn in by_urn and urn not in seen:
                    seen.add(urn)
                    waiting.append(by_urn[urn])
        return False

    def aws_resources(self) -> list[RegisteredResource]:
        """Return the resources of the AWS provider."""
        return [resource for resource in self.resources if resource.type.startswith("aws:")]

    def policy_resources(self) -> list[Resource]:
        """Return the resources as policy packs see them; unknown values are unknown to them, too."""
        return [
            Resource(
                resource.urn,
                resource.type,
                resource.name,
                {key: NOT_KNOWN if value == UNKNOWN else value for key, value in resource.inputs.items()},
                parent=resource.parent,
                outputs=self.outputs.get(resource.urn, {}),
            )
            for resource in self.resources
        ]

    def shape(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the inputs of AWS resources by type and name."""
        return {resource.key: resource.inputs for resource in self.aws_resources()}


class InvokeError(grpc.RpcError):
    """An error of the official provider's function, as the engine passes it on."""

    def __init__(self, token: str, why: str) -> None:
        error = f"invoking {token}: 1 error occurred:\n\t* {why}\n\n"
        super().__init__(f"invocation of {token} returned an error: {error}")

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        return str(self)


class Cloud(mocks.MockMonitor):
    """Answers as the engine and AWS would, as far as the components ask, and keeps the requests.

    Unlike the monitor that it replaces it starts no event loop of its own within a call: two of those at once can
    wait for each other for ever.
    """

    def __init__(
        self, zones: list[str], partition: str, caller: str, existing: Mapping[str, Any], *, preview: bool
    ) -> None:
        super().__init__(_Nothing())
        self.existing = existing
        self.zones, self.partition, self.caller, self.preview = zones, partition, caller, preview
        self.graph = Graph()
        self.clusters: dict[str, dict[str, Any]] = {}

    def Invoke(self, request: Any) -> Any:  # noqa: N802 - the engine's name for it
        china = self.partition == "aws-cn"
        args = json_format.MessageToDict(request.args)
        if request.tok == "pulumi:pulumi:getResource":
            return self._answered({"urn": args["urn"], "id": "cluster-id", "state": self.clusters[args["urn"]]})
        answers: dict[str, dict[str, Any]] = {
            "aws:index/getAvailabilityZones:getAvailabilityZones": {"names": self.zones, "id": REGION},
            # Nothing of an earlier time is kept
            "aws:resourcegroupstaggingapi/getResources:getResources": {"resourceTagMappingLists": [], "id": REGION},
            "aws:index/getCallerIdentity:getCallerIdentity": {
                "accountId": ACCOUNT,
                "arn": f"arn:{self.partition}:sts::{ACCOUNT}:assumed-role/{self.caller.rsplit('/', 1)[-1]}/run-1",
            },
            "aws:iam/getRole:getRole": {"arn": self.caller},
            "aws:index/getRegion:getRegion": {"region": REGION},
            "aws:index/getPartition:getPartition": {
                "partition": self.partition,
                "dnsSuffix": "amazonaws.com.cn" if china else "amazonaws.com",
            },
        }
        self.graph.invokes.append((request.tok, request.provider))
        if request.tok in self.existing:
            return self._existing_answer(request.tok, args)
        return self._answered(answers[request.tok])

    def _existing_answer(self, token: str, args: dict[str, Any]) -> Any:
        """Return an existing resource by its id or name, or a function's only result."""
        answers = self.existing[token]
        named = next((args[word] for word in ("id", "name", "fileSystemId") if word in args), None)
        answer = dict(answers if named is None else answers.get(named, {}))
        for name in FILTERS_ONLY.get(token, ()):
            if name not in args:
                answer.pop(name, None)
            elif answer.get(name) != args[name]:
                answer = {}
        if not answer:
            raise InvokeError(token, "nothing matches")
        return self._answered(answer)

    @staticmethod
    def _answered(values: dict[str, Any]) -> Any:
        answer = resource_pb2.ResourceInvokeResponse()
        getattr(answer, "return").CopyFrom(_struct(values))
        return answer

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the engine's name for it
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == "pulumi:pulumi:Stack":
            return resource_pb2.RegisterResourceResponse(urn=urn)
        inputs: dict[str, Any] = json_format.MessageToDict(request.object)
        self.graph.resources.append(
            RegisteredResource(
                type=request.type,
                name=request.name,
                urn=urn,
                parent=request.parent,
                inputs=inputs,
                after=frozenset(request.dependencies),
                protect=request.protect if request.HasField("protect") else None,
                retain=request.retainOnDelete if request.HasField("retainOnDelete") else None,
                ignored=list(request.ignoreChanges),
                provider=request.provider,
                aliases=len(request.aliases),
                providers=dict(request.providers),
                delete_first=request.deleteBeforeReplace,
                deletion_timeout={key: getattr(request.customTimeouts, key) for key in ("create", "update", "delete")},
            )
        )
        if request.type == "eks:index:Cluster":
            return resource_pb2.RegisterResourceResponse(urn=urn, object=_struct(self._cluster(urn, inputs)))
        if self.preview or not request.custom:
            return resource_pb2.RegisterResourceResponse(urn=urn, object=_struct(inputs))
        id_ = f"{request.name}-id"
        computed = {
            "name": request.name,
            "arn": f"arn:{self.partition}:made:{REGION}:{ACCOUNT}:{request.name}",
            "publicIp": "192.0.2.1",
            "dnsName": f"{id_}.example",
            "url": f"https://{id_}.example",
            **dict.fromkeys(("keyId", "allocationId"), id_),
        }
        return resource_pb2.RegisterResourceResponse(urn=urn, id=id_, object=_struct({**computed, **inputs}))

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - the engine's name for it
        self.graph.outputs[request.urn] = json_format.MessageToDict(request.outputs)
        return super().RegisterResourceOutputs(request)

    def _cluster(self, urn: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return the outputs of the official component; in a first preview most of them are unknown."""
        inner = f"{urn.rpartition('::')[0]}$aws:eks/cluster:Cluster::{inputs['name']}"
        arn = f"arn:{self.partition}:eks:{REGION}:{ACCOUNT}:cluster/{inputs['name']}"
        attributes = {"arn": arn, "endpoint": f"https://{inputs['name']}.example"}
        self.clusters[inner] = {
            "name": inputs["name"],
            **(dict.fromkeys(attributes, UNKNOWN) if self.preview else attributes),
        }
        outputs = {
            "kubeconfigJson": "{}",
            "clusterSecurityGroupId": "sg-cluster",
            "oidcProviderUrl": f"https://oidc.eks.{REGION}.amazonaws.com/id/ABC",
        }
        return {
            **(dict.fromkeys(outputs, UNKNOWN) if self.preview else outputs),
            "eksCluster": {
                rpc._special_sig_key: rpc._special_resource_sig,
                "urn": inner,
                "id": UNKNOWN if self.preview else inputs["name"],
                "packageVersion": "",
            },
        }


# Where a resource was written is for an engine to show: nobody reads it here, and finding it costs a fifth of the time
resource._get_stack_trace = source_pb2.StackTrace


class _Nothing(mocks.Mocks):
    """Mocks that are never called: the monitor above answers every request."""

    def call(self, args: mocks.MockCallArgs) -> Any:
        raise NotImplementedError

    def new_resource(self, args: mocks.MockResourceArgs) -> Any:
        raise NotImplementedError


async def _settled() -> None:
    """Until everything is registered, or something failed, which the SDK then tells.

    The SDK waits for the first of all outputs again and again, which takes a quarter of a test's time.
    """
    left: Any = SETTINGS
    pause = 0.02
    while True:
        await asyncio.sleep(0)
        tasks = [*left.rpc_manager.rpcs, *left.outputs]
        waiting = [task for task in tasks if not task.done()]
        if not waiting or any(task.done() and (task.cancelled() or task.exception()) for task in tasks):
            return
        # Others may have begun and failed meanwhile, so it looks again now and then.
        await asyncio.wait(waiting, timeout=pause, return_when=asyncio.FIRST_EXCEPTION)
        pause = min(2 * pause, 0.3)


def _depends_on(from_resource: pulumi.Resource, to_resource: pulumi.Resource) -> bool:
    """Return whether a resource depends on another, as the SDK does.

    The SDK's generators, each within the one before, take half of the time in which a large stack is built. Nothing
    depends on most resources that are asked about, because they are just being registered.
    """
    if from_resource is not to_resource and to_resource not in _DEPENDENCIES:
        return False
    seen, waiting = {from_resource}, [from_resource]
    while waiting:
        following = waiting.pop()
        if following is to_resource:
            return True
        new = resource_cycle_breaker._deps(following) - seen
        seen |= new
        waiting += new
    return False


_DEPENDENCIES = WeakSet[pulumi.Resource]()  # what some resource depends on
_add_dependency = resource_cycle_breaker._add_dep


def _add_and_record(from_resource: pulumi.Resource, to_resource: pulumi.Resource) -> None:
    _DEPENDENCIES.add(to_resource)
    _add_dependency(from_resource, to_resource)


def _struct(values: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(values, struct_pb2.Struct())


def registered(
    build: Callable[[], Any],
    *,
    preview: bool = False,
    zones: list[str] | None = None,
    partition: str = "aws",
    caller: str = CALLER,
    existing: Mapping[str, Any] | None = None,
    seen: list[Graph] | None = None,
) -> Graph:
    """Return the graph that `build` registers as that caller; outputs that it returns are resolved into `result`.

    `existing` has the results of functions, by their tokens and by the id or name in the request. `seen`
    gets the graph at once, to be looked at when the program failed.
    """
    loop = asyncio.new_event_loop()
    # One call at a time, so that the same program registers in the same order.
    loop.set_default_executor(ThreadPoolExecutor(1))
    # Of a program that failed the first error is raised; those of its other outputs say the same, as to the engine.
    loop.set_exception_handler(lambda *_: None)
    asyncio.set_event_loop(loop)
    try:
        monitor = Cloud(zones or ZONES, partition, caller, existing or {}, preview=preview)
        if seen is not None:
            seen.append(monitor.graph)
        mocks.set_mocks(
            _Nothing(),
            project="agent-environment",
            stack="test",
            preview=preview,
            monitor=monitor,
            logger=logging.getLogger("graph"),
        )
        # What a failed program before this one left unfinished belongs to a loop that is closed.
        left: Any = SETTINGS
        left.rpc_manager.clear()
        left.outputs.clear()
        built: list[Any] = []

        async def program() -> None:
            component = build()
            if isinstance(component, pulumi.Output):
                built.append(await component.future())
            await _settled()

        # No API server is behind the address of a mocked cluster.
        with (
            patch.object(api_authorization, "wait_for_authorization", lambda _: ""),
            patch.object(resource_cycle_breaker, "_reachable", _depends_on),
            patch.object(resource_cycle_breaker, "_add_dep", _add_and_record),
        ):
            loop.run_until_complete(run_pulumi_func(program))
        monitor.graph.result = built[0] if built else None
        return monitor.graph
    finally:
        # A program that failed leaves outputs waiting for what will never come.
        waiting = asyncio.all_tasks(loop)
        for task in waiting:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*waiting, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_default_executor())
        asyncio.set_event_loop(None)
        loop.close()
