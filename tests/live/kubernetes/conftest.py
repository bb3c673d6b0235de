"""A live control plane, and the provider driven against it in this process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentenv.rehearsal.controlplane.plane import ControlPlane
from agentenv.rehearsal.providers.kubernetes.cluster import Cluster
from tests.live.conftest import LiveCluster
from tests.live.kubernetes.engine import Engine, engine_in
from tests.live.kubernetes.provider_driver import ProviderDriver


@pytest.fixture(scope="session")
def plane(live: LiveCluster) -> ControlPlane:
    return live.plane


@pytest.fixture
def engine(tmp_path: Path, plane: ControlPlane) -> Engine:
    return engine_in(tmp_path, plane)


@pytest.fixture
def driver(plane: ControlPlane) -> Iterator[ProviderDriver]:
    """A provider configured for the control plane, in a namespace of this test."""
    place = f"test-{uuid.uuid4().hex[:8]}"
    created = ProviderDriver.configured({"kubeconfig": str(plane.kubeconfig()), "namespace": place})
    created.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}}, "test")
    yield created
    created.cluster.delete(created.cluster.discovery.find("v1", "Namespace"), "", place, "Background")


@pytest.fixture
def cluster(driver: ProviderDriver) -> Cluster:
    """A client of the cluster, to read and change objects without the provider."""
    return driver.cluster
