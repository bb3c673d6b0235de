"""A preview of the local stack, beside the engine's own price for the same resources.

The baseline is a program that does nothing but register the same resource types with the same inputs in a loop, through
the same SDK and plugins, on the same stage: no components of ours, no settings, no look-ups. The cluster is registered
as the component of the eks plugin, which makes its children in both. What is left between the two is ours. `untyped_s`
is the same loop without the SDK's classes, which nobody writes, but which shows what their import is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.timing import best
from rehearsal.cluster_side import Serving
from rehearsal.engine import Engine
from rehearsal.stage import Stage, stage
from rehearsal.tools.progress import telling

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
# What is in a cluster is registered through a provider whose cluster is not known yet, as in the program's own preview
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
class Recorded:
    """What a loop registers: resources, and the component that makes those of the cluster."""

    rows: list[dict[str, Any]]
    cluster: dict[str, Any]
    resources: int  # the cluster's own included


def measure(repeat: int) -> dict[str, Any]:
    """The previews by turns; the program's is at most one and a half times the engine's."""
    root = Path(__file__).resolve().parent.parent
    with stage(telling(), cluster=Serving()) as opened:
        recorded = record(opened, root)
        program = opened.project(root, "local")
        typed = loop(opened, "typed", UNTYPED + TYPED + LOOP, recorded)
        untyped = loop(opened, "untyped", UNTYPED + LOOP, recorded)
        for one in (program, typed, untyped):
            one.preview()  # once unmeasured: byte code and the disk's cache are warm for all alike
        program_s, engine_s, untyped_s = best(repeat, program.preview, typed.preview, untyped.preview)
    return {
        "resources": recorded.resources,
        "program_s": round(program_s, 2),
        "engine_s": round(engine_s, 2),
        "ratio": round(program_s / engine_s, 2),
        "untyped_s": round(untyped_s, 2),
        # Claims come with the sandbox classes: until then no user reaches the program, so there is nothing to compare
        "users_10_s": None,
        "users_10000_s": None,
        "users_ratio": None,
    }


def record(opened: Stage, root: Path) -> Recorded:
    """Every resource of the local stack with the inputs that it was brought up with."""
    engine = opened.project(root, "local")
    engine.up()
    made = [row for row in engine.state() if row.get("custom") and not row["type"].startswith("pulumi:")]
    engine.destroy()
    own = [row for row in made if "$eks:index:" not in row["urn"]]
    [cluster] = [row["inputs"] for row in made if row["type"] == "aws:eks/cluster:Cluster"]
    rows = [
        {
            "type": row["type"],
            "name": f"{row['urn'].rsplit('::', 1)[-1]}-{number}",
            "inputs": {key: value for key, value in row.get("inputs", {}).items() if key != "__defaults"},
            "version": version(f"pulumi-{row['type'].partition(':')[0]}"),
        }
        for number, row in enumerate(own)
    ]
    inputs = {
        **CLUSTER,
        "name": cluster["name"],
        "version": cluster["version"],
        "privateSubnetIds": cluster["vpcConfig"]["subnetIds"],
        "vpcId": next(row["id"] for row in made if row["type"] == "aws:ec2/vpc:Vpc"),
        "tags": cluster["tags"],
    }
    return Recorded(rows, {"inputs": inputs, "version": version("pulumi-eks")}, len(made))


def loop(opened: Stage, name: str, text: str, recorded: Recorded) -> Engine:
    """A program that registers the recorded resources in a loop."""
    folder = opened.run.folder / name
    folder.mkdir()
    (folder / "resources.json").write_text(json.dumps(recorded.rows), encoding="utf-8")
    (folder / "cluster.json").write_text(json.dumps(recorded.cluster), encoding="utf-8")
    (folder / "__main__.py").write_text(text, encoding="utf-8")
    return opened.program(folder, "local", {"aws:region": "us-east-1"})
