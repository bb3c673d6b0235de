"""What a program registers, recorded where the engine would hear it: types, inputs, parents and options."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pulumi
from google.protobuf import json_format
from pulumi.runtime import mocks, rpc
from pulumi.runtime.stack import run_pulumi_func

ACCOUNT, REGION = "123456789012", "eu-west-1"
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
    result: Any = None

    def of(self, type_: str) -> list[Made]:
        """The resources of one type, which may be given by its last word."""
        return [made for made in self.made if made.type == type_ or made.type.rsplit(":", 1)[-1] == type_]

    def one(self, type_: str, name: str = "") -> Made:
        """The only resource of a type, or the one whose name ends so."""
        found = [made for made in self.of(type_) if made.name.endswith(name)]
        assert len(found) == 1, f"{len(found)} of {type_} {name}: {[made.name for made in found]}"
        return found[0]

    def cloud(self) -> list[Made]:
        """What a provider would make."""
        return [made for made in self.made if made.type.startswith("aws:")]

    def shape(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Inputs by type and name."""
        return {made.key: made.inputs for made in self.cloud()}


class Cloud(mocks.Mocks):
    """Answers as AWS would, as far as the components ask."""

    def __init__(self, zones: list[str], partition: str, *, preview: bool) -> None:
        self.zones, self.partition, self.preview = zones, partition, preview

    def call(self, args: mocks.MockCallArgs) -> Any:
        answers: dict[str, dict[str, Any]] = {
            "aws:index/getAvailabilityZones:getAvailabilityZones": {"names": self.zones, "id": REGION},
            "aws:index/getCallerIdentity:getCallerIdentity": {"accountId": ACCOUNT},
            "aws:index/getRegion:getRegion": {"region": REGION},
            "aws:index/getPartition:getPartition": {
                "partition": self.partition,
                "dnsSuffix": "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com",
            },
        }
        return answers[args.token]

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        if args.custom is False:
            return None, dict(args.inputs)
        if self.preview:
            return "", dict(args.inputs)
        made = f"{args.name}-id"
        arn = f"arn:{self.partition}:made:{REGION}:{ACCOUNT}:{args.name}"
        computed = {
            "arn": arn,
            "keyId": made,
            "publicIp": "192.0.2.1",
            "allocationId": made,
            "dnsName": f"{made}.example",
        }
        return made, {"name": args.name, **computed, **args.inputs}


class Monitor(mocks.MockMonitor):
    """Keeps the raw requests, which say more than mocks are told."""

    def __init__(self, answering: Cloud) -> None:
        super().__init__(answering)
        self.graph = Graph()

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the engine's name for it
        answer = super().RegisterResource(request)
        if request.type != "pulumi:pulumi:Stack":
            self.graph.made.append(
                Made(
                    type=request.type,
                    name=request.name,
                    urn=answer.urn,
                    parent=request.parent,
                    inputs=json_format.MessageToDict(request.object),
                    after=frozenset(request.dependencies),
                    protect=request.protect if request.HasField("protect") else None,
                    retain=request.retainOnDelete if request.HasField("retainOnDelete") else None,
                    ignored=list(request.ignoreChanges),
                    provider=request.provider,
                    aliases=len(request.aliases),
                )
            )
        return answer


def registered(
    build: Callable[[], Any],
    *,
    preview: bool = False,
    zones: list[str] | None = None,
    partition: str = "aws",
) -> Graph:
    """What `build` registers; its outputs are resolved into `result` where it returns any."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        monitor = Monitor(Cloud(zones or ZONES, partition, preview=preview))
        mocks.set_mocks(
            monitor.mocks,
            project="agent-environment",
            stack="test",
            preview=preview,
            monitor=monitor,
            logger=logging.getLogger("graph"),
        )
        built: list[Any] = []

        async def program() -> None:
            made = build()
            if isinstance(made, pulumi.Output):
                built.append(await made.future())

        loop.run_until_complete(run_pulumi_func(program))
        monitor.graph.result = built[0] if built else None
        return monitor.graph
    finally:
        asyncio.set_event_loop(None)
        loop.close()
