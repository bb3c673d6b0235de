"""Getting to the cluster, or knowing why not: at a preview the cluster may not be there yet."""

from __future__ import annotations

import threading
import time
from typing import Final

from agentenv.rehearsal.providers.kubernetes import kubeconfig
from agentenv.rehearsal.providers.kubernetes.client import ApiError, Client, Unreachable
from agentenv.rehearsal.providers.kubernetes.cluster import Cluster
from agentenv.rehearsal.providers.kubernetes.credentials import NoCredentials
from agentenv.rehearsal.providers.kubernetes.settings import Settings

AGAIN: Final = 5.0  # seconds before an unreachable cluster is tried again


class Unreached(Exception):
    """Why there is no cluster to speak to."""


class Reach:
    """The way to one cluster, tried when it is first needed."""

    def __init__(self, settings: Settings, environment: dict[str, str], cancelled: threading.Event) -> None:
        self._settings = settings
        self._cancelled = cancelled
        self._lock = threading.Lock()
        self._cluster: Cluster | None = None
        self._reason = ""
        self._next_try = float("-inf")
        self._access: kubeconfig.Access | None = None
        if not settings.known:
            self._reason = "it is not known yet which one is meant"
            return
        try:
            found = kubeconfig.load(settings.kubeconfig, environment)
            self._access = kubeconfig.access(found, settings.context, settings.cluster, settings.namespace)
        except kubeconfig.BadKubeconfig as error:
            self._reason = str(error)

    @property
    def namespace(self) -> str:
        """The namespace of objects that name none."""
        return (self._access.namespace if self._access else self._settings.namespace) or "default"

    def cluster(self) -> Cluster:
        """The cluster; raises `Unreached` with the reason. A failure is remembered for a moment, not for ever."""
        with self._lock:
            if self._cluster is not None:
                return self._cluster
            if self._access is not None and time.monotonic() >= self._next_try:
                began = time.monotonic()
                cluster = Cluster(Client(self._access, timeout=self._settings.timeout), self._cancelled)
                try:
                    cluster.version()
                except (Unreachable, NoCredentials, ApiError) as error:
                    self._reason = str(error)
                    took = time.monotonic() - began
                    # An address that swallows everything makes a try long: most of the time must not go into tries.
                    self._next_try = time.monotonic() + max(AGAIN, 4 * took)
                else:
                    self._cluster = cluster
                    return cluster
            raise Unreached(f"the configured Kubernetes cluster is unreachable: {self._reason}")

    def stop(self) -> None:
        """End whatever waits."""
        self._cancelled.set()
        if self._cluster is not None:
            self._cluster.client.stop()
