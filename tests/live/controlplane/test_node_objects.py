"""The API server validates node pools and classes with Karpenter's own definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.config.sections.capacity import Capacity, System
from agentenv.core.nodes.bootstrap import user_data
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.nodes.node_pools import Demand, node_classes, node_pools
from agentenv.core.pinned_versions import releases
from agentenv.rehearsal.controlplane.client import ApiError, Client
from tests.live.conftest import LiveCluster
from tests.live.controlplane.karpenter_definitions import karpenter_definitions

Object = dict[str, Any]
NITRO_IMAGES = ("ami-0a1b2c3d4e5f60718",)
LAYOUT = Capacity(nitro_images=NITRO_IMAGES)
METAL = Capacity(
    nested_families=("c8i", "m7i-metal", "m7g-metal"),
    nitro_images=NITRO_IMAGES,
    system=System(families=("t4g", "m7i-metal")),
)
DEMANDS = [
    *(Demand(tier, kernel, "both") for tier in ("verified", "standard", "untrusted") for kernel in ("kata", "nitro")),
    Demand("verified", "kata", "both", gpu=True),
]


@pytest.fixture(scope="module")
def client(live: LiveCluster) -> Iterator[Client]:
    """Install Karpenter's definitions."""
    client = live.plane.client
    with karpenter_definitions(client):
        yield client


def validated(client: Client, document: Object) -> Object:
    """Return the object that the server would store, in a strict dry run."""
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    return client.request("POST", client.path(document, named=False), document, query=query)


def objects(layout: Capacity, identity: dict[str, str]) -> Iterator[Object]:
    """Yield the node classes and node pools of every demand."""
    pools = node_pools(layout, DEMANDS)
    for kind in node_classes(pools):
        spec = kind.spec(
            layout,
            cluster="stage",
            identity=dict(identity),
            key="arn:aws:kms:us-east-1:123456789012:key/1",
            user_data=user_data(kind.wall, Mirrors().runtimes(releases().runtimes)),
            tags={"environment": "dev", "sandbox-nodes": kind.name},
        )
        yield obj("karpenter.k8s.aws/v1", "EC2NodeClass", kind.name, spec)
    for pool in pools:
        yield obj("karpenter.sh/v1", "NodePool", pool.name, pool.spec(layout))


def obj(version: str, kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("layout", [LAYOUT, METAL], ids=["shares of machines", "whole machines"])
@pytest.mark.parametrize("identity", [{"role": "nodes"}, {"instanceProfile": "nodes"}], ids=["role", "profile"])
def test_every_pool_and_class_is_accepted_unchanged(client: Client, layout: Capacity, identity: dict[str, str]) -> None:
    documents = list(objects(layout, identity))
    assert {document["kind"] for document in documents} == {"EC2NodeClass", "NodePool"}
    for document in documents:
        stored = validated(client, document)["spec"]
        assert {key: stored[key] for key in document["spec"] if key != "template"} == {
            key: value for key, value in document["spec"].items() if key != "template"
        }, document["metadata"]["name"]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("EC2NodeClass", {"role": "nodes", "instanceProfile": "nodes"}),
        ("EC2NodeClass", {"cpuOptions": {"nested": "enabled"}}),
        ("NodePool", {"weight": 0}),
        ("NodePool", {"disruption": {"consolidateAfter": "5m", "budgets": [{"nodes": "0", "reasons": ["Old"]}]}}),
    ],
)
def test_invalid_objects_are_refused(client: Client, kind: str, change: Object) -> None:
    """The validation refuses invalid objects."""
    document = next(object_ for object_ in objects(LAYOUT, {"role": "nodes"}) if object_["kind"] == kind)
    with pytest.raises(ApiError):
        validated(client, {**document, "spec": {**document["spec"], **change}})
