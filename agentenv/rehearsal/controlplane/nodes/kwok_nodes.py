"""Nodes that kwok keeps alive, with the labels, taints and capacity of the real ones."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentenv.core.nodes.node_pools import processor

Object = dict[str, Any]

_TAINT = re.compile(r"(?P<key>[^=:]+)(?:=(?P<value>[^:]*))?:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute)")


@dataclass(frozen=True)
class NodeShape:
    """A node as Karpenter, a node group or Fargate would have launched it.

    `cpu` and `memory` are its allocatable resources. Taints are written as for kubectl: `key=value:effect`.
    """

    name: str
    zone: str  # such as us-east-1a
    instance_type: str
    cpu: str
    memory: str
    pods: int = 58
    architecture: str = ""  # by default that of the instance type
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    extended: Mapping[str, str] = field(default_factory=dict)  # resources beside those that every node has

    def node(self) -> Object:
        """Return the node object, as the kubelet would register it."""
        resources = {
            "cpu": self.cpu,
            "memory": self.memory,
            "pods": str(self.pods),
            "ephemeral-storage": "80Gi",
            **self.extended,
        }
        status: Object = {
            "capacity": resources,
            "allocatable": resources,
            "nodeInfo": {
                "architecture": self._processor,
                "operatingSystem": "linux",
                "kubeletVersion": "v1.35.4",
                "kubeProxyVersion": "",
                "containerRuntimeVersion": "containerd://2.2.0",
                "kernelVersion": "6.12",
                "osImage": "Amazon Linux 2023",
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
            },
            "addresses": [
                {"type": "InternalIP", "address": self.address},
                {"type": "Hostname", "address": self.name},
            ],
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": self._labels()},
            "spec": {
                "providerID": f"aws:///{self.zone}/i-{self._digest()[:17]}",
                "taints": [taint(text) for text in self.taints],
            },
            "status": status,
        }

    @property
    def address(self) -> str:
        """Return an address derived from the node's name."""
        first, second, third = bytes.fromhex(self._digest()[:6])
        return f"10.{first % 100}.{second}.{third or 1}"

    @property
    def _processor(self) -> str:
        return self.architecture or processor(self.instance_type.partition(".")[0])

    def _labels(self) -> dict[str, str]:
        own = {
            "kubernetes.io/arch": self._processor,
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": self.name,
            "topology.kubernetes.io/zone": self.zone,
            "topology.kubernetes.io/region": self.zone[:-1],
        }
        if self.instance_type:
            own["node.kubernetes.io/instance-type"] = self.instance_type
        return {**own, **self.labels}

    def _digest(self) -> str:
        return hashlib.sha256(self.name.encode()).hexdigest()


def taint(text: str) -> dict[str, str]:
    """Parse a taint as kubectl writes it."""
    match = _TAINT.fullmatch(text)
    if match is None:
        raise ValueError(
            f"'{text}' is no taint: write key=value:effect or key:effect, with one of the effects NoSchedule, "
            "PreferNoSchedule, NoExecute"
        )
    return {name: value for name, value in match.groupdict().items() if value is not None}
