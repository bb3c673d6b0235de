"""The installation of agent-sandbox on the shared control plane, at its first use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests.live.controlplane.objects import TIMEOUT

Object = dict[str, Any]

SYSTEM = "agent-sandbox-system"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/agent-sandbox-controller"
EXTENSIONS = "extensions.agents.x-k8s.io/v1beta1"
# Not the domain that the controller allows without a file
DOMAIN = "people.example.org"
DOMAINS = {"allowed-label-domains": f"{DOMAIN},sandbox.users.io"}
_FIRST = {"CustomResourceDefinition": 0, "Namespace": 1}


def installed(admin: Client, toolbox: Toolbox) -> None:
    """Install the controller with the label domains of claims, unless it runs with them already."""
    about = {"name": "agent-sandbox-config", "namespace": SYSTEM}
    everything = [*manifests(toolbox.path("agent-sandbox-manifests"))]
    for obj in sorted(everything, key=lambda obj: _FIRST.get(obj["kind"], 2)):
        admin.apply(obj)
        if obj["kind"] == "Namespace":
            admin.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": DOMAINS})
    assert until(lambda: _rolled_out(admin.get(DEPLOYMENT)), TIMEOUT)


def _rolled_out(deployment: Object) -> bool:
    status = deployment.get("status") or {}
    counts = (status.get("updatedReplicas"), status.get("readyReplicas"), status.get("replicas"))
    return status.get("observedGeneration") == deployment["metadata"]["generation"] and counts == (1, 1, 1)


def manifests(folder: Path) -> Iterator[Object]:
    """Return the documents of the release, as its kustomization lists them."""
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    patches = [yaml.safe_load(row["patch"]) for row in listed["patches"]]
    for name in listed["resources"]:
        for obj in yaml.safe_load_all((folder / name).read_text(encoding="utf-8")):
            if obj is None:
                continue
            for patch in patches:
                if (obj["kind"], obj["metadata"]["name"]) == (patch["kind"], patch["metadata"]["name"]):
                    changed = patch["spec"]["template"]["spec"]
                    obj["spec"]["template"]["spec"]["containers"][0] |= changed["containers"][0]
                    obj["spec"]["template"]["spec"]["volumes"] = changed["volumes"]
            yield obj
