"""A live control plane, and the provider driven against it in this process."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from rehearsal import processes
from rehearsal.controlplane.plane import PROGRAMS, ControlPlane, control_plane
from rehearsal.kubernetes.cluster import Cluster
from rehearsal.tools import ensure, telling
from tests.live.kubernetes.driving import Driver


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Real programs; built at the first use on a machine, which takes minutes."""
    toolbox = ensure(PROGRAMS, telling())
    run = f"test-{uuid.uuid4().hex[:8]}"
    try:
        with control_plane(toolbox, tmp_path_factory.mktemp("plane"), {**os.environ, processes.MARK: run}) as opened:
            yield opened
    finally:
        processes.end(run)


@pytest.fixture
def driver(plane: ControlPlane) -> Iterator[Driver]:
    """A provider configured for the plane, in a namespace of this test's own."""
    place = f"test-{uuid.uuid4().hex[:8]}"
    made = Driver.configured({"kubeconfig": str(plane.kubeconfig()), "namespace": place})
    made.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}}, "test")
    yield made
    made.cluster.delete(made.cluster.discovery.find("v1", "Namespace"), "", place, "Background")


@pytest.fixture
def cluster(driver: Driver) -> Cluster:
    """The cluster itself, to change and look at things behind the provider's back."""
    return driver.cluster
