"""Time a preview of the local stack, compared with the engine alone, and with more classes, seats and users.

The baseline is a program that registers the same resource types with the same inputs in a loop, with the same SDK and
plugins, on the same stage: without components, settings or look-ups. The cluster is registered as the component of the
eks plugin, which creates its children in both. The difference is the time of this project. `untyped_s` is the same loop
without the SDK's classes, which shows the time of their import.

More classes take the time of their resources. Declared workspaces take little more than the engine needs for their
resources. More users, who are claims in the cluster, take no time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.engine import Engine
from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools.progress import terminal_progress
from bench import crowd, stacks
from bench.timing import best

UNTYPED = '''"""Registers recorded resources and nothing else."""

import importlib
import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pulumi

rows = json.loads((Path(__file__).parent / "resources.json").read_text())
cluster = json.loads((Path(__file__).parent / "cluster.json").read_text())
'''
# Resources in the cluster use a provider whose cluster is still unknown, as in the preview of the program
LOOP = """
pulumi.ComponentResource(
    "eks:index:Cluster", "cluster", cluster["inputs"], pulumi.ResourceOptions(version=cluster["version"]), True
)
api = None
for row in sorted(rows, key=lambda row: row["type"].startswith("kubernetes:")):
    options = pulumi.ResourceOptions(version=row["version"])
    if row["type"].startswith("kubernetes:"):
        api = api or pulumi.ProviderResource("kubernetes", "api", {"kubeconfig": made.id}, options)
        options = pulumi.ResourceOptions(version=row["version"], provider=api)
    made = pulumi.CustomResource(row["type"], row["name"], row["inputs"], options)
"""
TYPED = """
import pulumi_eks

for row in rows:
    package, module, kind = row["type"].split(":")
    module = module.split("/")[0] if package == "aws" else module.replace("/", ".")
    try:
        getattr(importlib.import_module(f"pulumi_{package}.{module}"), kind)
    except (ImportError, AttributeError):  # a custom resource, which has no class
        continue
"""

FEW, MANY = 10, 10_000
SEATS = 100
_SEATS_RECORDED = 2

CLUSTER = {
    "authenticationMode": "API",
    "bootstrapSelfManagedAddons": False,
    "corednsAddonOptions": {"enabled": False},
    "createOidcProvider": False,
    "endpointPrivateAccess": True,
    "kubeProxyAddonOptions": {"enabled": False},
    "skipDefaultNodeGroup": True,
    "skipDefaultSecurityGroups": True,
    "useDefaultVpcCni": True,
}


@dataclass(frozen=True)
class Recording:
    """The resources that a loop registers, and the component of the cluster."""

    rows: list[dict[str, Any]]
    cluster: dict[str, Any]
    resources: int  # the cluster's own included


def measure(repeat: int) -> dict[str, Any]:
    """Measure everything on one stage. The ratio of the program to the engine should be at most 1.5."""
    with stage(terminal_progress(), cluster=ClusterOptions()) as opened:
        deployed = stacks.project(opened, stacks.local(seats=_SEATS_RECORDED))
        deployed.up()
        local, seats = record(deployed.state())
        return {
            "resources": local.resources,
            **_first(opened, local, seats, repeat),
            **_users(opened, deployed, repeat),
        }


def _first(opened: Stage, local: Recording, seats: Recording, repeat: int) -> dict[str, Any]:
    """Time first previews in turn: of the local stack, of the loop, and with more classes and seats."""
    copies = [
        {**row, "name": f"{row['name']}-{number}"} for number in range(SEATS // _SEATS_RECORDED) for row in seats.rows
    ]
    engines = (
        stacks.project(opened, stacks.local()),
        loop(opened, "typed", UNTYPED + TYPED + LOOP, local),
        loop(opened, "untyped", UNTYPED + LOOP, local),
        stacks.project(opened, stacks.local(classes=3)),
        stacks.project(opened, stacks.local(classes=30)),
        stacks.project(opened, stacks.local(seats=SEATS)),
        loop(opened, "seats", UNTYPED + TYPED + LOOP, replace(local, rows=[*local.rows, *copies])),
    )
    for engine in engines:
        engine.preview()  # warm up the byte code and the disk cache for all
    program, typed, untyped, few, many, seated, seated_engine = best(repeat, *(engine.preview for engine in engines))
    return {
        "program_s": round(program, 2),
        "engine_s": round(typed, 2),
        "ratio": round(program / typed, 2),
        "untyped_s": round(untyped, 2),
        "classes_3_s": round(few, 2),
        "classes_30_s": round(many, 2),
        "classes_ratio": round(many / few, 2),
        # The time that the seats add
        "seats": SEATS,
        "seats_s": round(seated - program, 2),
        "seats_engine_s": round(seated_engine - typed, 2),
        "seats_ratio": round((seated - program) / (seated_engine - typed), 2),
    }


def _users(opened: Stage, deployed: Engine, repeat: int) -> dict[str, Any]:
    """Time a preview of the deployed stack with refresh, with few and with many claims."""
    if opened.cluster is None:
        raise CommandError("there is no cluster on this stage")
    client, name = opened.cluster.plane.client, stacks.local()[stacks.CLASSES][0]["name"]
    timings: list[tuple[float, list[Any]]] = []
    crowd.stop_controller(client)
    created = 0
    for users in (FEW, MANY):
        crowd.claims(client, name, range(created, users))
        created = crowd.count(client, name)
        if created != users:
            raise CommandError(f"{users} claims were created, and {created} exist")
        found: list[Any] = []
        (shortest,) = best(repeat, lambda found=found: found.append(deployed.preview("--refresh").changed_resources()))
        timings.append((shortest, found))
    (few_s, few), (many_s, many) = timings
    if few[-1] != many[-1]:
        raise CommandError(f"a preview changes with {MANY} claims: {many[-1]} instead of {few[-1]}")
    return {
        "users_10_s": round(few_s, 2),
        "users_10000_s": round(many_s, 2),
        "users_ratio": round(many_s / few_s, 2),
    }


def record(state: list[dict[str, Any]]) -> tuple[Recording, Recording]:
    """Return the resources of the deployed local stack with their inputs, and separately those of the seats."""
    own = [row for row in state if row.get("custom") and not row["type"].startswith("pulumi:")]
    seats = [row for row in own if "$agent-environment:index:Workspace$" in row["urn"]]
    rest = [row for row in own if row not in seats]
    [cluster] = [row["inputs"] for row in own if row["type"] == "aws:eks/cluster:Cluster"]
    inputs = {
        **CLUSTER,
        "name": cluster["name"],
        "version": cluster["version"],
        "privateSubnetIds": cluster["vpcConfig"]["subnetIds"],
        "vpcId": next(row["id"] for row in own if row["type"] == "aws:ec2/vpc:Vpc"),
        "tags": cluster["tags"],
    }
    component = {"inputs": inputs, "version": version("pulumi-eks")}
    outside = [row for row in rest if "$eks:index:" not in row["urn"]]
    return Recording(_rows(outside), component, len(rest)), Recording(_rows(seats), component, len(seats))


def _rows(state: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "type": row["type"],
            "name": f"{row['urn'].rsplit('::', 1)[-1]}-{number}",
            "inputs": {key: value for key, value in row.get("inputs", {}).items() if key != "__defaults"},
            "version": version(f"pulumi-{row['type'].partition(':')[0]}"),
        }
        for number, row in enumerate(state)
    ]


def loop(opened: Stage, name: str, text: str, recorded: Recording) -> Engine:
    """Return a program that registers the recorded resources in a loop."""
    folder = opened.run.folder / name
    folder.mkdir()
    (folder / "resources.json").write_text(json.dumps(recorded.rows), encoding="utf-8")
    (folder / "cluster.json").write_text(json.dumps(recorded.cluster), encoding="utf-8")
    (folder / "__main__.py").write_text(text, encoding="utf-8")
    return opened.program(folder, "local", {"aws:region": "us-east-1"})
