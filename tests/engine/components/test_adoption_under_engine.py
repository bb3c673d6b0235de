"""Adopted resources under the engine: an environment comes up, settles, and leaves them as they were."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli.commands.rehearse import PACKS
from agentenv.cli.preflight import access, existing, subnet_capacity
from agentenv.cli.preflight.aws_calls import Account
from agentenv.cli.preflight.check import Check, run_checks
from agentenv.cli.stack_files import stack_file
from agentenv.cli.stack_yaml import read_document
from agentenv.config import Settings, read
from agentenv.rehearsal.scenario.scenario import Scenario
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.credentials import client
from agentenv.rehearsal.stage.engine import Engine
from agentenv.rehearsal.stage.policy_packs import prepare
from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools import ensure
from agentenv.rehearsal.tools.progress import terminal_progress
from tests.existing import ExistingResources
from tests.fast.config.stack_samples import config, settings

ROOT = Path(__file__).resolve().parents[3]
NAME, VERSION = "adopted", "1.34"
# What guardrails need to come back to a cluster that was never away.
STAYS = {
    "kubernetes validatingadmissionpolicies sandbox-guardrail-parameters",
    "kubernetes validatingadmissionpolicybindings sandbox-guardrail-parameters",
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Stage]:
    """A stage with a control plane of its own: an environment leaves guardrail parameters in a cluster it adopted."""
    with stage(terminal_progress(), under=tmp_path, cluster=ClusterOptions()) as running:
        yield running


@pytest.fixture
def ground(served: Stage) -> ExistingResources:
    """A VPC, a cluster that its deployer gets into, and a file system."""
    resources = ExistingResources(lambda service, **_: client(service, served.environment), NAME)
    resources.raise_cluster(VERSION)
    deployer = ClusterOptions.deployer
    resources.eks.create_access_entry(clusterName=NAME, principalArn=deployer, type="STANDARD")
    resources.eks.associate_access_policy(
        clusterName=NAME,
        principalArn=deployer,
        policyArn="arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        accessScope={"type": "cluster"},
    )
    return resources


def sections(ground: ExistingResources, files: str) -> dict[str, Any]:
    return {
        "network": {"existing": ground.existing()},
        "cluster": {"existing": NAME, "version": VERSION},
        "storage": {"existing": [files]},
    }


def environment(served: Stage, ground: ExistingResources, files: str) -> Engine:
    return served.program(ROOT / "stacks", "dev", config(sections(ground, files)), {"name": "agent-environment"})


def failed_checks(ground: ExistingResources, settings_: Settings) -> list[Check]:
    """Return the checks of preflight that fail for the existing resources and the caller."""
    account = Account("us-east-1", ground)  # pyright: ignore[reportArgumentType] - all of a session that is used
    questions = [*existing.questions(settings_), *access.questions(settings_), *subnet_capacity.questions(settings_)]
    return [check for check in run_checks(questions, account) if check.ok is not True]


def test_an_environment_lives_in_what_stands_and_leaves_it_as_it_was(served: Stage, ground: ExistingResources) -> None:
    files = ground.files()
    before = set(served.leftovers())
    assert failed_checks(ground, settings(sections(ground, files))) == []
    engine = environment(served, ground, files)
    try:
        engine.up()
        again = engine.up()
        assert again.changed == 0, again.changed_resources()
        outputs = engine.outputs()
        assert (outputs["vpcId"], outputs["clusterName"], outputs["fileSystemIds"]) == (ground.vpc, NAME, [files])
        assert outputs["zones"] == ["us-east-1a", "us-east-1b"]
        assert len(ground.efs.describe_mount_targets(FileSystemId=files)["MountTargets"]) == 2
        assert set(served.leftovers()) > before
        assert failed_checks(ground, settings(sections(ground, files))) == []
    finally:
        engine.destroy()
    assert engine.state() == []
    assert set(served.leftovers()) == before | STAYS
    try:
        assert engine.up().changed > 0
        assert engine.up().changed == 0
    finally:
        engine.destroy()
    assert engine.state() == []
    assert set(served.leftovers()) == before | STAYS
    # Without its policy the file system would be open to the whole VPC.
    policy = ground.efs.describe_file_system_policy(FileSystemId=files)["Policy"]
    assert "role/dev-agents-cluster-efs-node" in policy
    assert ground.eks.describe_cluster(name=NAME)["cluster"]["status"] == "ACTIVE"
    assert ground.efs.describe_mount_targets(FileSystemId=files)["MountTargets"] == []


def filled_in(ground: ExistingResources, group: str, files: str) -> dict[str, Any]:
    """The stack `adopted` with what it adopts, and with the manifests that somebody copied."""
    config = copy.deepcopy(read_document(stack_file(ROOT, NAME)).value["config"])
    config["agent-environment:network"]["existing"] = ground.existing()
    config["agent-environment:storage"] |= {"existing": [files], "mountGroup": group}
    manifests = ensure(["agent-sandbox-manifests"], terminal_progress()).path("agent-sandbox-manifests")
    config["agent-environment:cluster"]["sandboxController"]["manifests"] = str(manifests)
    return config


class Silent:
    """Hears of the steps of a course, and says nothing."""

    def started(self, step: str) -> None: ...

    def finished(self, step: str, seconds: float, result: str) -> None: ...


def test_the_stack_adopted_comes_up_is_mended_and_leaves_what_it_adopted(
    served: Stage, ground: ExistingResources
) -> None:
    group = ground.group()
    files = ground.mounted(group)
    config = filled_in(ground, group, files)
    assert failed_checks(ground, read(config, NAME)) == []
    before = set(served.leftovers())
    engine = served.program(ROOT / "stacks", NAME, config, {"name": "agent-environment"})
    packs = prepare([ROOT / "policies" / name for name in PACKS], served.run.folder / "packs")
    course = Scenario(served, engine, Silent(), packs=packs)
    try:
        course.up()
        assert course.report.policy.pop("passed") > 100
        assert course.report.policy == {"failed": 0, "indeterminate": 0, "waived": 0}
        course.again()
        course.workspace()
        assert [(row["class"], row["ready"]) for row in course.report.pools] == [("standard", 1)]
        course.drift()
        assert course.report.drift["made"] == course.report.drift["mended"] >= 5
        assert "serviceUrl" not in engine.outputs()
    finally:
        engine.destroy()
    assert engine.state() == []
    assert set(served.leftovers()) == before | STAYS
    targets = ground.efs.describe_mount_targets(FileSystemId=files)["MountTargets"]
    assert len(targets) == 2
    for target in targets:
        held = ground.efs.describe_mount_target_security_groups(MountTargetId=target["MountTargetId"])
        assert held["SecurityGroups"] == [group]


def test_what_is_wrong_is_told_and_nothing_is_made_beside_it(served: Stage, ground: ExistingResources) -> None:
    open_ = ground.files(Encrypted=False)
    before = set(served.leftovers())
    engine = environment(served, ground, open_)
    refused = engine.up(check=False)
    diagnostics = "\n".join(refused.diagnostics)
    assert refused.code != 0
    assert "existing resources cannot be adopted as they are" in diagnostics
    assert f"{open_} is not encrypted, and that cannot be changed" in diagnostics
    assert "Traceback" not in diagnostics
    assert [check.why for check in failed_checks(ground, settings(sections(ground, open_)))] == [
        f"{open_} is not encrypted, and that cannot be changed; copy its files to an encrypted file system and use that"
    ]
    engine.destroy()
    assert set(served.leftovers()) == before


def test_a_vpc_that_does_not_exist_is_refused_by_name(served: Stage, ground: ExistingResources) -> None:
    before = set(served.leftovers())
    missing = {
        **sections(ground, "fs-0123456789abcdef0"),
        "network": {"existing": {**ground.existing(), "vpcId": "vpc-0123456789abcdef0"}},
    }
    engine = served.program(ROOT / "stacks", "dev", config(missing), {"name": "agent-environment"})
    refused = engine.up(check=False)
    assert refused.code != 0
    diagnostics = "\n".join(refused.diagnostics)
    assert "vpc-0123456789abcdef0 cannot be read as an available VPC: " in diagnostics
    assert (
        "no matching EC2 VPC found; wait until it is available, or name one of this account and region" in diagnostics
    )
    engine.destroy()
    assert set(served.leftovers()) == before
