"""The nodes that go away, from a watch of all nodes, and the pods of claimed sandboxes on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from agentenv.core.classes.names import WORKSPACE_LABEL
from agentenv.core.lifecycle.moving import LeavingNode, leaving_node
from agentenv.core.values.object_fields import section
from agentenv.service.kube.client import NODES, PODS, Document, KubeClient, collect
from agentenv.service.kube.informer import Informer

if TYPE_CHECKING:
    from agentenv.service.kube.unreadable import Key

# Within so many seconds Kubernetes itself deletes the pods of a node that is gone.
GONE_SECONDS: Final = 90.0
# A node that waits for its pods is read as often; one that ends within two minutes in every pass.
WAITING_SECONDS: Final = 30.0


class NodeSource(Protocol):
    """Where a pass reads the nodes that go away, and ends what they left."""

    def leaving(self) -> Sequence[LeavingNode]:
        """Return the nodes that go away, or are gone since a short time."""
        ...

    async def pods(self, node: str) -> Sequence[Document]:
        """Return the pods of claimed sandboxes on a node."""
        ...

    async def end_pod(self, pod: Document) -> bool:
        """Delete the pod of a node that is gone, without a grace period: nobody is left to report its end."""
        ...


class LeavingNodes(NodeSource):
    """The nodes that go away, as this replica knows them."""

    def __init__(self, kube: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube, self._clock = kube, clock
        self._leaving: dict[str, LeavingNode] = {}
        self._gone: dict[str, tuple[float, LeavingNode]] = {}
        self._read: dict[str, float] = {}  # when nodes that wait were last returned

    def informer(self) -> Informer:
        """Return the informer that keeps it up to date."""
        return Informer(self._kube, NODES, self.put, self.drop)

    def put(self, node: Document) -> None:
        """Add or update a node."""
        name = node["metadata"]["name"]
        self._gone.pop(name, None)
        self._leaving.pop(name, None)
        if (leaving := leaving_node(node)) is not None:
            self._leaving[name] = leaving

    def drop(self, key: Key) -> None:
        """Remember a node that is gone for a while."""
        name = key[1]
        node = self._leaving.pop(name, LeavingNode(name, spot=False))
        self._gone[name] = (self._clock(), replace(node, gone=True))

    def leaving(self) -> Sequence[LeavingNode]:
        """Return the nodes that go away, or are gone since a short time."""
        now = self._clock()
        self._gone = {name: row for name, row in self._gone.items() if row[0] > now - GONE_SECONDS}
        self._read = {
            name: at for name, at in self._read.items() if name in self._leaving and at > now - WAITING_SECONDS
        }
        due = [node for name, node in self._leaving.items() if name not in self._read]
        self._read |= {node.name: now for node in due if not node.spot}
        return [*due, *(node for _, node in self._gone.values())]

    async def pods(self, node: str) -> Sequence[Document]:
        """Return the pods of claimed sandboxes on a node."""
        return await collect(self._kube.list(PODS, labels={WORKSPACE_LABEL: None}, fields=f"spec.nodeName={node}"))

    async def end_pod(self, pod: Document) -> bool:
        """Delete a pod without a grace period."""
        metadata = section(pod, "metadata")
        return await self._kube.delete(PODS, {"metadata": metadata}, any_version=True, grace_seconds=0)
