"""What a program registers, recorded where the engine would hear it: types, inputs, parents and options."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
import pulumi
from google.protobuf import json_format, struct_pb2
from pulumi.runtime import mocks, resource, rpc
from pulumi.runtime.proto import resource_pb2, source_pb2
from pulumi.runtime.settings import SETTINGS
from pulumi.runtime.stack import run_pulumi_func

from agentenv.core.capabilities.unknown_values import UNKNOWN as NOT_KNOWN
from agentenv.policies.view.resource import Resource
from agentenv.rehearsal.providers.aws.functions import FILTERS_ONLY

ACCOUNT, REGION = "123456789012", "eu-west-1"
CALLER = f"arn:aws:iam::{ACCOUNT}:role/ci/pipeline"
ZONES = ["eu-west-1c", "eu-west-1a", "eu-west-1b", "eu-west-1d", "eu-west-1e"]
UNKNOWN = rpc.UNKNOWN


@dataclass(frozen=True)
class Made:
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
    """Everything that was registered, in its order."""

    made: list[Made] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)  # of components, by URN
    result: Any = None

    def of(self, type_: str) -> list[Made]:
        """The resources of one type, which may be given by its last word."""
        return [made for made in self.made if made.type == type_ or made.type.rsplit(":", 1)[-1] == type_]

    def one(self, type_: str, name: str = "") -> Made:
        """The only resource of a type, or the one whose name ends so."""
        found = [made for made in self.of(type_) if made.name.endswith(name)]
        assert len(found) == 1, f"{len(found)} of {type_} {name}: {[made.name for made in found]}"
        return found[0]

    def comes_before(self, one: Made, other: Made) -> bool:
        """Whether one is made before the other, and goes after it: by what it names, waits for or speaks through."""
        by_urn = {made.urn: made for made in self.made}
        waiting, seen = [other], set[str]()
        while waiting:
            made = waiting.pop()
            spoken_through = [made.provider, *made.providers.values()]
            for urn in (*made.after, *(provider.rpartition("::")[0] for provider in spoken_through)):
                if urn == one.urn:
                    return True
                if urn in by_urn and urn not in seen:
                    seen.add(urn)
                    waiting.append(by_urn[urn])
        return False

    def cloud(self) -> list[Made]:
        """What a provider would make."""
        return [made for made in self.made if made.type.startswith("aws:")]

    def resources(self) -> list[Resource]:
        """All of it as policies see it; what is not known is so to them, too."""
        return [
            Resource(
                one.urn,
                one.type,
                one.name,
                {key: NOT_KNOWN if value == UNKNOWN else value for key, value in one.inputs.items()},
                parent=one.parent,
                outputs=self.outputs.get(one.urn, {}),
            )
            for one in self.made
        ]

    def shape(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Inputs by type and name."""
        return {made.key: made.inputs for made in self.cloud()}


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
        self, zones: list[str], partition: str, caller: str, standing: Mapping[str, Any], *, preview: bool
    ) -> None:
        super().__init__(_Nothing())
        self.standing = standing
        self.zones, self.partition, self.caller, self.preview = zones, partition, caller, preview
        self.graph = Graph()
        self.clusters: dict[str, dict[str, Any]] = {}

    def Invoke(self, request: Any) -> Any:  # noqa: N802 - the engine's name for it
        china = self.partition == "aws-cn"
        asked = json_format.MessageToDict(request.args)
        if request.tok == "pulumi:pulumi:getResource":
            return self._answered({"urn": asked["urn"], "id": "cluster-id", "state": self.clusters[asked["urn"]]})
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
        self.graph.asked.append((request.tok, request.provider))
        if request.tok in self.standing:
            return self._stands(request.tok, asked)
        return self._answered(answers[request.tok])

    def _stands(self, token: str, asked: dict[str, Any]) -> Any:
        """What was made before: by its id or name, or where a function has but one answer, that."""
        answers = self.standing[token]
        named = next((asked[word] for word in ("id", "name", "fileSystemId") if word in asked), None)
        answer = dict(answers if named is None else answers.get(named, {}))
        for name in FILTERS_ONLY.get(token, ()):
            if name not in asked:
                answer.pop(name, None)
            elif answer.get(name) != asked[name]:
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
        self.graph.made.append(
            Made(
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
        made = f"{request.name}-id"
        computed = {
            "name": request.name,
            "arn": f"arn:{self.partition}:made:{REGION}:{ACCOUNT}:{request.name}",
            "publicIp": "192.0.2.1",
            "dnsName": f"{made}.example",
            "url": f"https://{made}.example",
            **dict.fromkeys(("keyId", "allocationId"), made),
        }
        return resource_pb2.RegisterResourceResponse(urn=urn, id=made, object=_struct({**computed, **inputs}))

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - the engine's name for it
        self.graph.outputs[request.urn] = json_format.MessageToDict(request.outputs)
        return super().RegisterResourceOutputs(request)

    def _cluster(self, urn: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """What the official component hands out; in a preview of nothing that exists, little of it is known."""
        inner = f"{urn.rpartition('::')[0]}$aws:eks/cluster:Cluster::{inputs['name']}"
        arn = f"arn:{self.partition}:eks:{REGION}:{ACCOUNT}:cluster/{inputs['name']}"
        told = {"arn": arn, "endpoint": f"https://{inputs['name']}.example"}
        self.clusters[inner] = {"name": inputs["name"], **(dict.fromkeys(told, UNKNOWN) if self.preview else told)}
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
    """Never asked: the monitor above answers itself."""

    def call(self, args: mocks.MockCallArgs) -> Any:
        raise NotImplementedError

    def new_resource(self, args: mocks.MockResourceArgs) -> Any:
        raise NotImplementedError


async def _settled() -> None:
    """Until everything is registered, or something failed, which the SDK then tells.

    The SDK waits for the first of all outputs again and again, which takes a quarter of a test's time.
    """
    left: Any = SETTINGS
    while True:
        await asyncio.sleep(0)
        tasks = [*left.rpc_manager.rpcs, *left.outputs]
        waiting = [task for task in tasks if not task.done()]
        if not waiting or any(task.done() and (task.cancelled() or task.exception()) for task in tasks):
            return
        # Others may have begun meanwhile, so it looks again now and then.
        await asyncio.wait(waiting, timeout=0.02, return_when=asyncio.FIRST_EXCEPTION)


def _struct(values: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(values, struct_pb2.Struct())


def registered(
    build: Callable[[], Any],
    *,
    preview: bool = False,
    zones: list[str] | None = None,
    partition: str = "aws",
    caller: str = CALLER,
    standing: Mapping[str, Any] | None = None,
    seen: list[Graph] | None = None,
) -> Graph:
    """What `build` registers when that role runs it; its outputs are resolved into `result` where it returns any.

    `standing` is what there was before: the answers of functions, by their tokens and by what is asked for. `seen`
    gets the graph at once, to be looked at when the program failed.
    """
    loop = asyncio.new_event_loop()
    # One call at a time, so that the same program registers in the same order.
    loop.set_default_executor(ThreadPoolExecutor(1))
    # Of a program that failed the first error is raised; those of its other outputs say the same, as to the engine.
    loop.set_exception_handler(lambda *_: None)
    asyncio.set_event_loop(loop)
    try:
        monitor = Cloud(zones or ZONES, partition, caller, standing or {}, preview=preview)
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
            made = build()
            if isinstance(made, pulumi.Output):
                built.append(await made.future())
            await _settled()

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
