"""The connection to the cluster. At preview the cluster may not exist yet."""

from __future__ import annotations

import threading
import time
from typing import Final

from agentenv.rehearsal.providers.kubernetes import kubeconfig
from agentenv.rehearsal.providers.kubernetes.client import ApiError, Client, Unreachable
from agentenv.rehearsal.providers.kubernetes.cluster import Cluster
from agentenv.rehearsal.providers.kubernetes.credentials import CredentialsError
from agentenv.rehearsal.providers.kubernetes.settings import Settings

RETRY_INTERVAL: Final = 5.0  # seconds before an unreachable cluster is tried again


class ClusterUnreachable(Exception):
    """The cluster is unreachable, and why."""


class ClusterConnection:
    """The connection to one cluster, opened at first use."""

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
            config = kubeconfig.load(settings.kubeconfig, environment)
            self._access = kubeconfig.cluster_access(config, settings.context, settings.cluster, settings.namespace)
        except kubeconfig.InvalidKubeconfig as error:
            self._reason = str(error)

    @property
    def namespace(self) -> str:
        """Return the namespace of objects without one."""
        return (self._access.namespace if self._access else self._settings.namespace) or "default"

    def cluster(self) -> Cluster:
        """Return the cluster, or raise `ClusterUnreachable`. A failure is cached for a few seconds."""
        with self._lock:
            if self._cluster is not None:
                return self._cluster
            if self._access is not None and time.monotonic() >= self._next_try:
                began = time.monotonic()
                cluster = Cluster(Client(self._access, timeout=self._settings.timeout), self._cancelled)
                try:
                    cluster.version()
                except (Unreachable, CredentialsError, ApiError) as error:
                    self._reason = str(error)
                    took = time.monotonic() - began
                    # An address that swallows everything makes a try long: most of the time must not go into tries.
                    self._next_try = time.monotonic() + max(RETRY_INTERVAL, 4 * took)
                else:
                    self._cluster = cluster
                    return cluster
            raise ClusterUnreachable(f"the configured Kubernetes cluster is unreachable: {self._reason}")

    def stop(self) -> None:
        """Cancel all waits."""
        self._cancelled.set()
        if self._cluster is not None:
            self._cluster.client.stop()
