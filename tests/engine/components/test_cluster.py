"""The preview of the cluster and its add-ons: children of components, and transformations by the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentenv.rehearsal.stage.engine import Outcome
from agentenv.rehearsal.stage.stage import Stage

BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"


@pytest.fixture(scope="module")
def planned(opened: Stage) -> Outcome:
    """A preview of the program before anything is created."""
    program = Path(__file__).parent / "seats"
    return opened.program(program, "dev", {"aws:region": "us-east-1"}, {"name": "seats"}).preview()


def inputs(planned: Outcome, kind: str, name: str = "") -> dict[str, Any]:
    """Return the inputs of the only resource of a type, or of the only one with a name that ends so."""
    found = [
        step["new"]["inputs"]
        for step in planned.steps
        if step["type"] == kind and step["urn"].endswith(name) and step.get("new")
    ]
    assert len(found) == 1, (kind, name, len(found))
    return found[0]


def test_creator_of_the_cluster_is_not_its_administrator(planned: Outcome) -> None:
    cluster = inputs(planned, "aws:eks/cluster:Cluster")
    assert cluster["accessConfig"] == {
        "authenticationMode": "API",
        "bootstrapClusterCreatorAdminPermissions": False,
    }
    assert cluster["vpcConfig"]["endpointPrivateAccess"] is True
    assert cluster["vpcConfig"]["publicAccessCidrs"] == ["203.0.113.0/24"]
    assert len(cluster["enabledClusterLogTypes"]) == 5


def test_role_of_the_component_has_the_boundary(planned: Outcome) -> None:
    assert inputs(planned, "aws:iam/role:Role", "eks-eksRole-role")["permissionsBoundary"] == BOUNDARY


def test_component_creates_only_the_cluster_and_its_role(planned: Outcome) -> None:
    within = "agent-environment:index:Cluster$eks:index:Cluster$"
    created = {step["type"] for step in planned.steps if within in step["urn"]}
    assert created == {
        "aws:eks/cluster:Cluster",
        "aws:iam/role:Role",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        "eks:index:ServiceRole",
        "pulumi:providers:kubernetes",
    }


def test_nodes_are_previewed_before_the_cluster_exists(planned: Outcome) -> None:
    pool = inputs(planned, "kubernetes:karpenter.sh/v1:NodePool")
    assert (pool["metadata"]["name"], pool["spec"]["limits"]["cpu"]) == ("system-arm64", "16")
    assert inputs(planned, "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass")["spec"]["role"] == "dev-nodes-node"
