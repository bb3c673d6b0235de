"""Karpenter's definitions on the control plane of the live tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from agentenv.rehearsal.controlplane.client import ApiError, Client, until
from agentenv.rehearsal.tools import ensure
from agentenv.rehearsal.tools.progress import Silent
from tests.live.controlplane.objects import TIMEOUT


@contextmanager
def karpenter_definitions(client: Client) -> Iterator[None]:
    """Install the definitions of the chart and wait until they are served; delete them, and what they define, after."""
    tools = ensure(["helm", "karpenter-crd-chart"], Silent())
    command = [str(tools.path("helm")), "template", "crds", str(tools.path("karpenter-crd-chart"))]
    output = subprocess.run(command, capture_output=True, check=True).stdout
    definitions = [document for document in yaml.safe_load_all(output) if document]
    for definition in definitions:
        client.apply(definition)
    assert until(lambda: _served(client), TIMEOUT)
    yield
    paths = [client.path(definition) for definition in definitions]
    for path in paths:
        client.delete(path)
    assert until(lambda: not any(client.find(path) for path in paths), TIMEOUT)


def _served(client: Client) -> bool:
    """Return whether both kinds can be listed, which is a moment after their definitions."""
    kinds = (("karpenter.sh/v1", "NodePool"), ("karpenter.k8s.aws/v1", "EC2NodeClass"))
    try:
        paths = [client.path({"apiVersion": group, "kind": kind, "metadata": {}}, named=False) for group, kind in kinds]
    except ApiError:
        return False
    return all(client.find(path) is not None for path in paths)
