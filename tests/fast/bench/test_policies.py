"""What the benchmark of the packs asks and writes is what the engine would ask, and what the stack holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from agentenv.cli.review.graph import UNKNOWN, Resource
from agentenv.rehearsal.stage.policy_packs import prepare
from bench.analyzing import analyzer, questions
from bench.policies import LATER, around, write_manifests

ROOT = Path(__file__).parents[3]
LATER_MARK = next(iter(UNKNOWN))
POD = Resource(
    "urn:pulumi:prod::p::kubernetes:core/v1:Pod::bad",
    "kubernetes:core/v1:Pod",
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": LATER_MARK},
        "spec": {"hostPID": True, "containers": [{"name": "a", "image": "a", "securityContext": {"privileged": True}}]},
    },
)
VPC = Resource("urn:pulumi:prod::p::aws:ec2/vpc:Vpc::net", "aws:ec2/vpc:Vpc", {"cidrBlock": "10.0.0.0/16"})


def test_manifests_are_the_kubernetes_objects_and_say_what_comes_later(tmp_path: Path) -> None:
    assert write_manifests([POD, VPC], tmp_path / "m") == 1
    [file] = (tmp_path / "m").iterdir()
    written = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert written["metadata"] == {"namespace": LATER}
    assert written["spec"] == POD.inputs["spec"]


@pytest.mark.parametrize(("pack", "least"), [("policies/isolation", 2), ("policies/cost", 1), ("bench/empty_pack", 0)])
def test_a_pack_answers_as_under_the_engine(pack: str, least: int, tmp_path: Path) -> None:
    [folder] = prepare([ROOT / pack], tmp_path).folders
    with analyzer(folder) as one:
        found = one.review(questions([POD, VPC]))
        assert len(found) >= least
        assert (found == []) == (least == 0)
        assert one.review(questions([POD, VPC])) == found


def test_a_pack_knows_the_stack_that_is_previewed_and_reads_its_settings(tmp_path: Path) -> None:
    [folder] = prepare([ROOT / "policies/cost"], tmp_path / "pack").folders
    told = around(ROOT)
    assert told["PULUMI_STACK"] == "prod"
    config = {
        **json.loads(told["PULUMI_CONFIG"]),
        "agent-environment:cost": json.dumps(
            {"monthlyBudget": 1, "owner": "a", "costCenter": "b", "alertTo": "a@example.com"}
        ),
    }
    stack = Resource("urn:pulumi:prod::agent-environment::pulumi:pulumi:Stack::s", "pulumi:pulumi:Stack")
    for around_it, found in (({}, False), ({**told, "PULUMI_CONFIG": json.dumps(config)}, True)):
        with analyzer(folder, around_it) as one:
            assert ("COST-21" in one.review(questions([stack]))) is found
