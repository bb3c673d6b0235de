"""Stack files are read in the same way as by the engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli.stack_yaml import read_document
from agentenv.config import read
from agentenv.rehearsal import tools
from agentenv.rehearsal.tools.progress import terminal_progress

ROOT = Path(__file__).resolve().parents[3]

SCALARS = """\
config:
  aws:region: us-east-1
  agent-environment:network:
    endpoints: [010, 0o10, 0x1F, 1_000, 12:30, yes, No, on, 1e3, 1., .5, +7, -0, ~, "", 0b11, 1.0, 12e03, 1.10,
                TRUE, null, Null, 08, 0x, 1.2.3, none, "1.35", 'a', é]
    merged: &one {a: 1, b: 2}
    other: {<<: *one, b: 3}
    text: |
      two
      lines
"""


class Project:
    """A copy of the project's description and stack files, with its own home and state."""

    def __init__(self, folder: Path, pulumi: Path) -> None:
        self.folder, self.pulumi = folder, pulumi
        self.surroundings = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")},
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "rehearsal",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.pulumi, *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.surroundings,
            capture_output=True,
            text=True,
            check=False,
        )

    def config(self, stack: str) -> Mapping[str, Any]:
        """Return the configuration as the engine passes it to a program: flat, with objects as JSON."""
        self.call("stack", "init", stack)
        done = self.call("config", "--stack", stack, "--json")
        assert done.returncode == 0, done.stderr
        return {key: value["value"] for key, value in json.loads(done.stdout).items()}

    def write(self, stack: str, text: str) -> Path:
        path = self.folder / "stacks" / f"Pulumi.{stack}.yaml"
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "Pulumi.yaml", folder)
    (folder / "state").mkdir()
    (folder / "stacks").mkdir()
    for path in (ROOT / "stacks").glob("Pulumi.*.yaml"):
        shutil.copy(path, folder / "stacks")
    return Project(folder, tools.ensure(["pulumi"], terminal_progress()).path("pulumi"))


@pytest.mark.parametrize("stack", ["local", "dev", "staging", "prod", "full", "adopted"])
def test_engine_passes_the_values_of_the_file(project: Project, stack: str) -> None:
    document = read_document(ROOT / "stacks" / f"Pulumi.{stack}.yaml")
    assert read(project.config(stack), stack) == read(document.value["config"], stack)


def test_minimal_stack_file_has_a_region_and_cluster_access(project: Project) -> None:
    cluster = {"publicAccessCidrs": ["203.0.113.0/24"]}
    project.write("small", f"config:\n  aws:region: us-east-1\n  agent-environment:cluster: {json.dumps(cluster)}\n")
    expected = {"aws:region": "us-east-1", "agent-environment:cluster": cluster}
    assert read(project.config("small"), "small") == read(expected, "small")


def test_key_without_a_namespace_belongs_to_the_project(project: Project) -> None:
    text = "config:\n  aws:region: us-east-1\n  network: {nat: none}\n"
    document = read_document(project.write("bare", text))
    assert project.config("bare")["agent-environment:network"] == '{"nat":"none"}'
    assert document.value["config"]["network"] == {"nat": "none"}


def test_plain_scalars_have_the_engines_values(project: Project) -> None:
    path = project.write("scalars", SCALARS)
    key = "agent-environment:network"
    ours = read_document(path).value["config"][key]
    assert json.loads(project.config("scalars")[key]) == json.loads(json.dumps(ours))


@pytest.mark.parametrize(
    "text",
    [
        "config:\n  agent-environment:network: {a: 1, a: 2}\n",
        "config:\n  agent-environment:network: {a: 1}\n  agent-environment:network: {a: 2}\n",
        "config:\n\tagent-environment:network: {}\n",
        "config: {\n",
        "config:\n  agent-environment:network: *missing\n",
    ],
)
def test_file_that_the_engine_rejects_is_a_mistake(project: Project, text: str) -> None:
    path = project.write("refused", "config: {}\n")
    project.call("stack", "init", "refused")
    path.write_text(text, encoding="utf-8")
    assert project.call("config", "--stack", "refused").returncode != 0
    assert read_document(path).mistakes != []
