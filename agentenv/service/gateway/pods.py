"""The pods of the gateway, as the peers that say truly from where a request came.

Anybody can send `X-Forwarded-For`. Envoy removes it from every request and sets it anew: that of its pods is believed.
"""

from __future__ import annotations

from ipaddress import ip_address

from agentenv.core.gateway.documents import LABELS
from agentenv.core.gateway.envoy import NAMESPACE
from agentenv.core.values.object_fields import Document, section, text
from agentenv.service.kube.client import PODS, KubeClient
from agentenv.service.kube.informer import Informer
from agentenv.service.kube.unreadable import Key, key_of


class GatewayPods:
    """The addresses of the gateway's pods as one replica knows them."""

    def __init__(self) -> None:
        self._addresses: dict[Key, str] = {}

    def informer(self, kube: KubeClient) -> Informer:
        """Return the informer that keeps the addresses up to date while it runs."""
        labels = ",".join(f"{name}={value}" for name, value in LABELS.items())
        return Informer(kube, PODS, self.put, self.drop, namespace=NAMESPACE, labels=labels)

    def put(self, pod: Document) -> None:
        """Take the address of a pod; one that has ended has none any more."""
        status = section(pod, "status")
        if text(status, "phase") in {"Succeeded", "Failed"} or not text(status, "podIP"):
            self.drop(key_of(pod))
        else:
            self._addresses[key_of(pod)] = text(status, "podIP")

    def drop(self, key: Key) -> None:
        """Forget a deleted pod."""
        self._addresses.pop(key, None)

    def source(self, peer: str, forwarded: str) -> str:
        """Return the address that a request came from: that of the peer, or what a pod of the gateway says."""
        if peer not in self._addresses.values():
            return peer
        # Envoy adds the last one.
        last = forwarded.rpartition(",")[2].strip()
        try:
            return str(ip_address(last))
        except ValueError:
            return peer
