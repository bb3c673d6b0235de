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
# Guardrail parameters are retained in an adopted cluster
STAYS = {
    "kubernetes validatingadmissionpolicies sandbox-guardrail-parameters",
    "kubernetes validatingadmissionpolicybindings sandbox-guardrail-parameters",
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Stage]:
    """A stage with its own control plane, because an environment retains guardrail parameters in an adopted cluster."""
    with stage(terminal_progress(), under=tmp_path, cluster=ClusterOptions()) as running:
        yield running


@pytest.fixture
def existing_resources(served: Stage) -> ExistingResources:
    """A VPC, a cluster with access for its deployer, and a file system."""
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


def sections(existing_resources: ExistingResources, files: str) -> dict[str, Any]:
    return {
        "network": {"existing": existing_resources.existing()},
        "cluster": {"existing": NAME, "version": VERSION},
        "storage": {"existing": [files]},
    }


def environment(served: Stage, existing_resources: ExistingResources, files: str) -> Engine:
    return served.program(
        ROOT / "stacks", "dev", config(sections(existing_resources, files)), {"name": "agent-environment"}
    )


def failed_checks(existing_resources: ExistingResources, settings_: Settings) -> list[Check]:
    """Return the checks of preflight that fail for the existing resources and the caller."""
    account = Account("us-east-1", existing_resources)  # pyright: ignore[reportArgumentType] - all of a session that is used
    questions = [*existing.questions(settings_), *access.questions(settings_), *subnet_capacity.questions(settings_)]
    return [check for check in run_checks(questions, account) if check.ok is not True]


def test_environment_in_existing_resources_leaves_them_unchanged(
    served: Stage, existing_resources: ExistingResources
) -> None:
    files = existing_resources.files()
    before = set(served.leftovers())
    assert failed_checks(existing_resources, settings(sections(existing_resources, files))) == []
    engine = environment(served, existing_resources, files)
    try:
        engine.up()
        again = engine.up()
        assert again.changed == 0, again.changed_resources()
        outputs = engine.outputs()
        assert (outputs["vpcId"], outputs["clusterName"], outputs["fileSystemIds"]) == (
            existing_resources.vpc,
            NAME,
            [files],
        )
        assert outputs["zones"] == ["us-east-1a", "us-east-1b"]
        assert len(existing_resources.efs.describe_mount_targets(FileSystemId=files)["MountTargets"]) == 2
        assert set(served.leftovers()) > before
        assert failed_checks(existing_resources, settings(sections(existing_resources, files))) == []
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
    # Without its policy the file system is open to the whole VPC.
    policy = existing_resources.efs.describe_file_system_policy(FileSystemId=files)["Policy"]
    assert "role/dev-agents-cluster-efs-node" in policy
    assert existing_resources.eks.describe_cluster(name=NAME)["cluster"]["status"] == "ACTIVE"
    assert existing_resources.efs.describe_mount_targets(FileSystemId=files)["MountTargets"] == []


def adopted_config(existing_resources: ExistingResources, group: str, files: str) -> dict[str, Any]:
    """Return the configuration of the stack `adopted` with existing resources and the copied manifests."""
    config = copy.deepcopy(read_document(stack_file(ROOT, NAME)).value["config"])
    config["agent-environment:network"]["existing"] = existing_resources.existing()
    config["agent-environment:storage"] |= {"existing": [files], "mountGroup": group}
    manifests = ensure(["agent-sandbox-manifests"], terminal_progress()).path("agent-sandbox-manifests")
    config["agent-environment:cluster"]["sandboxController"]["manifests"] = str(manifests)
    return config


class Silent:
    """Ignores the progress of a scenario."""

    def started(self, step: str) -> None: ...

    def finished(self, step: str, seconds: float, result: str) -> None: ...


def test_adopted_stack_is_deployed_repaired_and_destroyed(served: Stage, existing_resources: ExistingResources) -> None:
    group = existing_resources.group()
    files = existing_resources.mounted(group)
    config = adopted_config(existing_resources, group, files)
    assert failed_checks(existing_resources, read(config, NAME)) == []
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
    targets = existing_resources.efs.describe_mount_targets(FileSystemId=files)["MountTargets"]
    assert len(targets) == 2
    for target in targets:
        held = existing_resources.efs.describe_mount_target_security_groups(MountTargetId=target["MountTargetId"])
        assert held["SecurityGroups"] == [group]


def test_invalid_existing_resources_are_reported_and_nothing_is_created(
    served: Stage, existing_resources: ExistingResources
) -> None:
    open_ = existing_resources.files(Encrypted=False)
    before = set(served.leftovers())
    engine = environment(served, existing_resources, open_)
    refused = engine.up(check=False)
    diagnostics = "\n".join(refused.diagnostics)
    assert refused.code != 0
    assert "existing resources cannot be adopted as they are" in diagnostics
    assert f"{open_} is not encrypted, and that cannot be changed" in diagnostics
    assert "Traceback" not in diagnostics
    assert [
        check.why for check in failed_checks(existing_resources, settings(sections(existing_resources, open_)))
    ] == [
        f"{open_} is not encrypted, and that cannot be changed; copy its files to an encrypted file system and use that"
    ]
    engine.destroy()
    assert set(served.leftovers()) == before


def test_missing_vpc_is_named(served: Stage, existing_resources: ExistingResources) -> None:
    before = set(served.leftovers())
    missing = {
        **sections(existing_resources, "fs-0123456789abcdef0"),
        "network": {"existing": {**existing_resources.existing(), "vpcId": "vpc-0123456789abcdef0"}},
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
