"""The whole review: of two revisions of a small repository offline, and of a deployed stack."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli.main import main
from agentenv.cli.review import offline
from agentenv.cli.review.preview import Call
from agentenv.cli.review.review import ReviewRequest, review
from agentenv.rehearsal.scenario.scenario import client
from agentenv.rehearsal.stage.engine import Engine
from agentenv.rehearsal.stage.stage import Stage

ROOT = Path(__file__).resolve().parents[4]
STACK = """config:
  aws:region: us-east-1
  agent-environment:cluster:
    admins: ["arn:aws:iam::111122223333:role/platform"]
    publicAccessCidrs: [203.0.113.0/24]
  agent-environment:cost: {{owner: platform, costCenter: "1"}}
  agent-environment:sandboxClasses:
    - name: standard
      image: registry.example.com/sandbox@sha256:{image}
      capabilities: [{capabilities}]
"""
PROGRAM = """import pulumi
from components.homes import homes
homes({})
"""
# A module of the revision itself, under a name that the installed package has too
MODULE = """import pulumi
from pulumi_aws import efs, sqs

def homes(encrypted):
    system = efs.FileSystem("homes", encrypted=encrypted, tags={{"owner": "p"}})
    efs.AccessPoint("ann", file_system_id=system.id, tags={{"owner": "{owner}"}})
    sqs.Queue("{queue}", name="{queue}", tags={{"owner": "p"}})
"""


@dataclass(frozen=True)
class Repository:
    """A small project in a git repository."""

    folder: Path

    def write(self, *, encrypted: bool, owner: str, queue: str, capabilities: str) -> None:
        """Write the program and its stack file."""
        for name, text in (
            ("stacks/Pulumi.dev.yaml", STACK.format(image="a" * 64, capabilities=capabilities)),
            ("stacks/__main__.py", PROGRAM.format(encrypted)),
            ("components/__init__.py", ""),
            ("components/homes.py", MODULE.format(owner=owner, queue=queue)),
        ):
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def git(self, *arguments: str) -> None:
        named = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *named, *arguments], cwd=self.folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Create a repository with a base commit, and a working tree that replaces, updates, creates and deletes."""
    repository_ = Repository(tmp_path / "repository")
    repository_.folder.mkdir()
    shutil.copy(ROOT / "Pulumi.yaml", repository_.folder)
    for pack in ("isolation", "cost"):
        shutil.copytree(
            ROOT / "policies" / pack, repository_.folder / "policies" / pack, ignore=shutil.ignore_patterns("__*__")
        )
        shutil.copy(ROOT / "policies" / pack / "__main__.py", repository_.folder / "policies" / pack)
    (repository_.folder / ".venv").symlink_to(sys.prefix)
    repository_.write(encrypted=True, owner="ann", queue="old", capabilities="dns")
    repository_.git("init", "-q")
    repository_.git("add", "stacks", "components", "Pulumi.yaml", "policies")
    repository_.git("commit", "-qm", "base")
    repository_.write(encrypted=False, owner="bob", queue="new", capabilities="dns, web")
    return repository_


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a separate cache for the graphs of commits."""
    monkeypatch.setattr(offline, "cache_folder", lambda: tmp_path / "kept")
    return tmp_path / "kept"


def test_two_revisions_are_compared_each_with_its_own_code(
    repository: Repository, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository.folder)
    command = ["review", "--stack", "dev", "--offline", "--base", "HEAD", "--json"]
    assert main([*command, "--format", "markdown,sarif,json", "--out", "out"]) == 1
    document: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["changes"] == {"create": 1, "update": 0, "replace": 2, "delete": 1}
    changed = {row["urn"].rsplit("::", 1)[-1]: (row["operation"], row["sureness"]) for row in document["resources"]}
    assert changed == {
        "homes": ("replace", "table"),
        "ann": ("replace", "follows"),
        "new": ("create", "shown"),
        "old": ("delete", "shown"),
    }
    assert [row["urn"].rsplit("::", 1)[-1] for row in document["losses"]] == ["homes", "ann"]
    assert document["cost"]["after"] is not None
    assert document["cost"]["note"] == ""
    assert document["capabilities"][0]["gained"][0].startswith("web: for example")
    fresh = [row for row in document["findings"] if row["id"] == "EFS-01" and row["state"] == "new"]
    assert fresh[0]["places"] == ["components/homes.py:5"]
    out = repository.folder / "out"
    assert sorted(path.name for path in out.iterdir()) == ["review.json", "review.md", "review.sarif"]
    assert json.loads((out / "review.json").read_text(encoding="utf-8"))["changes"] == document["changes"]

    # The graph of a commit is cached: its program is not run again
    def run_again(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(offline, "preview_tree", run_again)
    assert len(list(cache.iterdir())) == 1
    known = offline.preview_base(repository.folder, "dev", "HEAD", repository.folder / "unpacked")
    assert {resource.name: resource.inputs.get("encrypted") for resource in known.graph.values()}["homes"] is True


def deploy(opened: Stage, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> tuple[Engine, Call]:
    """Deploy the stack of a repository, and return the call for its previews."""
    engine = opened.project(repository.folder, "dev")
    variables = {**engine.environment, "PYTHONPATH": str(repository.folder)}
    deployed = Engine(engine.pulumi, engine.project, "dev", variables, engine.logs)
    deployed.up()
    for name, value in variables.items():
        if name.startswith("AWS_"):  # the account whose quotas are read
            monkeypatch.setenv(name, value)
    return deployed, Call(deployed.pulumi, deployed.project, repository.folder, "dev", variables)


def test_deployed_stack_is_previewed_with_packs_and_checked_for_drift(
    opened: Stage, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.git("stash", "-q")
    deployed, call = deploy(opened, repository, monkeypatch)
    repository.git("stash", "pop", "-q")
    by_urn = {row["type"]: row for row in deployed.state()}
    queue = by_urn["aws:sqs/queue:Queue"]["id"]
    client("sqs", call.environment).tag_queue(QueueUrl=queue, Tags={"owner": "somebody"})
    request_ = ReviewRequest(repository.folder, "dev", base="HEAD", drift=True, call=call)
    found = review(request_)

    assert found.drift is not None
    assert [(change.operation, change.name) for change in found.drift] == [("update", "old")]
    assert {change.name: change.operation for change in found.changes} == {
        "homes": "replace",
        "ann": "replace",
        "new": "create",
        "old": "delete",
    }
    assert {loss.change.name for loss in found.losses if loss.blocks} == {"homes", "ann"}
    states = {(row.finding.rule, row.finding.path, row.name): row.state for row in found.findings}
    assert states["EFS-01", "encrypted", "homes"] == "new"
    assert "existing" in states.values()
    assert found.refused == []
    assert any("block" in reason for reason in found.blocking)


# An unchanged file system, and queues, of which one is deleted
DEPLOYED = """import pulumi
from pulumi_aws import efs, sqs

def homes(encrypted):
    kept = pulumi.ResourceOptions(retain_on_delete={retained})
    efs.FileSystem("homes", encrypted=False, tags={{"owner": "p"}}, opts=kept)
    for name in {queues}:
        sqs.Queue(name, name=name)
"""


def test_unchanged_resources_are_evaluated_and_deleted_ones_are_not(
    opened: Stage, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = repository.folder / "components" / "homes.py"
    module.write_text(DEPLOYED.format(retained=True, queues=["stays", "goes"]), encoding="utf-8")
    deployed, call = deploy(opened, repository, monkeypatch)
    queue = next(row["id"] for row in deployed.state() if row["urn"].endswith("::goes"))
    module.write_text(DEPLOYED.format(retained=False, queues=["stays"]), encoding="utf-8")
    for drift in (False, True):
        if drift:
            client("sqs", call.environment).tag_queue(QueueUrl=queue, Tags={"owner": "somebody"})
        found = review(ReviewRequest(repository.folder, "dev", drift=drift, call=call))
        assert {change.name: change.operation for change in found.changes} == {"goes": "delete"}
        states = {(row.finding.rule, row.name): row.state for row in found.findings}
        assert states["EFS-01", "homes"] == "existing", drift
        assert states["COST-01", "stays"] == "existing", drift
        assert states["COST-01", "goes"] == "fixed", drift
        assert [urn.rsplit("::", 1)[-1] for urn in found.unprotected] == ["homes"], drift
        assert found.refused == [], drift


def test_empty_stack_is_checked_for_drift(opened: Stage, repository: Repository) -> None:
    engine = opened.project(repository.folder, "dev")
    variables = {**engine.environment, "PYTHONPATH": str(repository.folder)}
    found = review(
        ReviewRequest(
            repository.folder,
            "dev",
            drift=True,
            call=Call(engine.pulumi, engine.project, repository.folder, "dev", variables),
        )
    )
    assert found.failure == ""
    assert found.drift == []
    assert {change.operation for change in found.changes} == {"create"}
