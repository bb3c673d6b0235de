"""The examples: each comes up in the rehearsal, changes nothing at the second update, and is destroyed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli.commands.rehearse import PACKS
from agentenv.cli.stack_yaml import read_document
from agentenv.rehearsal.scenario.scenario import Scenario
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.credentials import client
from agentenv.rehearsal.stage.policy_packs import prepare
from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools.progress import terminal_progress
from tests.existing import ExistingResources

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
ENVIRONMENTS = sorted(path.name.split(".")[1] for path in (EXAMPLES / "environment").glob("Pulumi.*.yaml"))


class Silent:
    """Ignores the progress of a scenario."""

    def started(self, step: str) -> None: ...

    def finished(self, step: str, seconds: float, result: str) -> None: ...


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Stage]:
    """A simulated cloud, and a control plane that serves one cluster, because it keeps admission policies."""
    with stage(terminal_progress(), under=tmp_path, cluster=ClusterOptions()) as opened:
        yield opened


def configuration(served: Stage, example: str, stack: str) -> dict[str, Any]:
    """Return the configuration of a stack file; placeholders of existing resources are replaced by created ones."""
    config: dict[str, Any] = read_document(EXAMPLES / example / f"Pulumi.{stack}.yaml").value["config"]
    network = config.get("agent-environment:network", {})
    if "existing" in network:
        existing = ExistingResources(
            lambda service: client(service, served.environment), f"agent-environment-{stack}"
        ).existing()
        assert set(network["existing"]) == set(existing)
        network["existing"] = existing
    return config


def test_every_example_is_in_the_readme() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in ENVIRONMENTS if f"`Pulumi.{name}.yaml`" not in text] == []
    assert ENVIRONMENTS == ["adopted-vpc", "fargate", "gpu", "minimal"]


@pytest.mark.parametrize("stack", ENVIRONMENTS)
def test_environment_is_deployed_settles_and_is_destroyed(served: Stage, stack: str) -> None:
    config = configuration(served, "environment", stack)
    before = set(served.leftovers())
    engine = served.program(EXAMPLES / "environment", stack, config, {"name": "agents"})
    packs = prepare([ROOT / "policies" / name for name in PACKS], served.run.folder / f"packs-{stack}")
    scenario = Scenario(served, engine, Silent(), packs=packs)
    try:
        scenario.up()
        assert scenario.report.policy["passed"] > 50
        assert scenario.report.policy | {"failed": 0, "indeterminate": 0} == scenario.report.policy
        scenario.again()
        scenario.workspace()
        assert engine.outputs()["clusterName"] == f"agent-environment-{stack}"
        scenario.drift()
    finally:
        engine.destroy()
    assert engine.state() == []
    # EKS writes the last logs of a cluster after its deletion, and so creates their log group again.
    assert set(served.leftovers()) == before | {f"logs.groups /aws/eks/agent-environment-{stack}/cluster"}


def test_program_uses_one_component(served: Stage) -> None:
    before = set(served.leftovers())
    config = configuration(served, "network", "dev")
    engine = served.program(EXAMPLES / "network", "dev", config, {"name": "workloads"})
    try:
        engine.up()
        assert engine.outputs()["vpcId"].startswith("vpc-")
        assert engine.outputs()["databaseGroupId"].startswith("sg-")
        assert engine.up().changed == 0
    finally:
        engine.destroy()
    assert set(served.leftovers()) == before
