"""The policy benchmark sends the engine's requests, and writes the stack's Kubernetes objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from agentenv.cli.review.graph import Resource
from agentenv.core.capabilities.unknown_values import PLACEHOLDERS
from agentenv.rehearsal.stage.policy_packs import prepare
from bench.analyzing import analyzer, requests
from bench.policies import UNKNOWN_TEXT, pack_variables, write_manifests

ROOT = Path(__file__).parents[3]
UNKNOWN_VALUE = next(iter(PLACEHOLDERS))
POD = Resource(
    "urn:pulumi:prod::p::kubernetes:core/v1:Pod::bad",
    "kubernetes:core/v1:Pod",
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": UNKNOWN_VALUE},
        "spec": {"hostPID": True, "containers": [{"name": "a", "image": "a", "securityContext": {"privileged": True}}]},
    },
)
VPC = Resource("urn:pulumi:prod::p::aws:ec2/vpc:Vpc::net", "aws:ec2/vpc:Vpc", {"cidrBlock": "10.0.0.0/16"})


def test_manifests_are_the_kubernetes_objects_without_unknown_values(tmp_path: Path) -> None:
    assert write_manifests([POD, VPC], tmp_path / "m") == 1
    [file] = (tmp_path / "m").iterdir()
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert document["metadata"] == {"namespace": UNKNOWN_TEXT}
    assert document["spec"] == POD.inputs["spec"]


@pytest.mark.parametrize(("pack", "least"), [("policies/isolation", 2), ("policies/cost", 1), ("bench/empty_pack", 0)])
def test_a_pack_finds_the_same_as_with_the_engine(pack: str, least: int, tmp_path: Path) -> None:
    [folder] = prepare([ROOT / pack], tmp_path).folders
    with analyzer(folder) as pack_process:
        found = pack_process.analyze(requests([POD, VPC]))
        assert len(found) >= least
        assert (found == []) == (least == 0)
        assert pack_process.analyze(requests([POD, VPC])) == found


def test_a_pack_reads_the_settings_of_the_previewed_stack(tmp_path: Path) -> None:
    [folder] = prepare([ROOT / "policies/cost"], tmp_path / "pack").folders
    variables = pack_variables(ROOT)
    assert variables["PULUMI_STACK"] == "prod"
    config = {
        **json.loads(variables["PULUMI_CONFIG"]),
        "agent-environment:cost": json.dumps(
            {"monthlyBudget": 1, "owner": "a", "costCenter": "b", "alertTo": "a@example.com"}
        ),
    }
    stack = Resource("urn:pulumi:prod::agent-environment::pulumi:pulumi:Stack::s", "pulumi:pulumi:Stack")
    for stack_variables, found in (({}, False), ({**variables, "PULUMI_CONFIG": json.dumps(config)}, True)):
        with analyzer(folder, stack_variables) as pack_process:
            assert ("COST-21" in pack_process.analyze(requests([stack]))) is found
