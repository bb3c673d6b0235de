"""What stands already, under the engine: an environment comes up in it, settles, goes, and leaves it as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.cluster_side import Serving
from rehearsal.course import client
from rehearsal.engine import Engine
from rehearsal.stage import Stage, stage
from rehearsal.tools.progress import telling
from tests.standing import Ground

ROOT = Path(__file__).resolve().parents[3]
NAME = "stands"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage with a control plane, for all tests of this module."""
    with stage(telling(), under=tmp_path_factory.mktemp("runs"), cluster=Serving()) as one:
        yield one


@pytest.fixture(scope="module")
def ground(served: Stage) -> Ground:
    """A VPC, a cluster that its deployer gets into, and a file system."""
    made = Ground(lambda service: client(service, served.environment), NAME)
    made.raise_cluster()
    deployer = Serving.deployer
    made.eks.create_access_entry(clusterName=NAME, principalArn=deployer, type="STANDARD")
    made.eks.associate_access_policy(
        clusterName=NAME,
        principalArn=deployer,
        policyArn="arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        accessScope={"type": "cluster"},
    )
    return made


def environment(served: Stage, ground: Ground, files: str) -> Engine:
    config: dict[str, Any] = {
        "aws:region": "us-east-1",
        "agent-environment:network": {"existing": ground.existing()},
        "agent-environment:cluster": {"existing": NAME, "version": "1.35"},
        "agent-environment:storage": {"existing": [files]},
    }
    return served.program(ROOT / "stacks", "dev", config, {"name": "agent-environment"})


def test_an_environment_lives_in_what_stands_and_leaves_it_as_it_was(served: Stage, ground: Ground) -> None:
    files = ground.files()
    before = set(served.left())
    engine = environment(served, ground, files)
    try:
        engine.up()
        again = engine.up()
        assert again.changed == 0, again.touched()
        outputs = engine.outputs()
        assert (outputs["vpcId"], outputs["clusterName"], outputs["fileSystemIds"]) == (ground.vpc, NAME, [files])
        assert outputs["zones"] == ["us-east-1a", "us-east-1b"]
        assert len(ground.efs.describe_mount_targets(FileSystemId=files)["MountTargets"]) == 2
        assert set(served.left()) > before
    finally:
        engine.destroy()
    assert engine.state() == []
    assert set(served.left()) == before
    # Without its policy the file system would be open to the whole VPC.
    kept = ground.efs.describe_file_system_policy(FileSystemId=files)["Policy"]
    assert "role/dev-agents-cluster-efs-node" in kept
    assert ground.eks.describe_cluster(name=NAME)["cluster"]["status"] == "ACTIVE"
    assert ground.efs.describe_mount_targets(FileSystemId=files)["MountTargets"] == []


def test_what_is_wrong_is_told_and_nothing_is_made_beside_it(served: Stage, ground: Ground) -> None:
    open_ = ground.files(Encrypted=False)
    before = set(served.left())
    engine = environment(served, ground, open_)
    refused = engine.up(check=False)
    said = "\n".join(refused.diagnostics)
    assert refused.code != 0
    assert "what stands already cannot be used as it is" in said
    assert f"{open_} is not encrypted, and that cannot be changed" in said
    assert "Traceback" not in said
    engine.destroy()
    assert set(served.left()) == before
