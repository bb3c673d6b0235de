"""The wheel, installed without extras in an empty environment, outside a checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentenv.cli.extras import extra_of
from agentenv.cli.main import COMMANDS
from agentenv.components.package import EXPORTED_COMPONENTS
from agentenv.rehearsal.stage.stage import Stage

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
# Imports every module of the package; prints those that lack a module, with its name
IMPORT_ALL = """
import importlib, pkgutil, agentenv
for module in pkgutil.walk_packages(agentenv.__path__, "agentenv."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as missing:
            print(module.name, missing.name)
"""


@dataclass(frozen=True)
class Installed:
    """The environment with the wheel, and an empty folder outside any checkout."""

    python: Path
    folder: Path

    @property
    def package(self) -> Path:
        (found,) = self.python.parents[1].glob("lib/python*/site-packages/agentenv")
        return found

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        hidden = ("AWS_", "AGENTENV_", "PYTHON", "VIRTUAL_ENV")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        return subprocess.run(
            [str(self.python), *command],
            cwd=cwd or self.folder,
            env={**environment, "AWS_EC2_METADATA_DISABLED": "true"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def agentenv(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(str(self.python.with_name("agentenv")), *words)


def uv(*words: str) -> None:
    """Run uv with its cache, as `make setup` does, or with the registry if the cache is incomplete."""
    ended = subprocess.run([str(UV), *words, "--offline"], cwd=ROOT, capture_output=True, check=False)
    if ended.returncode:
        subprocess.run([str(UV), *words], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel and the packages that it requires, at the versions of the lock file."""
    built = tmp_path_factory.mktemp("built")
    requirements, environment = built / "requirements.txt", built / "environment"
    python = environment / "bin" / "python"
    uv("build", "--quiet", "--wheel", "--out-dir", str(built))
    (wheel,) = built.glob("*.whl")
    locked = ("--frozen", "--no-default-groups", "--no-emit-project", "--output-file", str(requirements))
    uv("export", "--quiet", *locked)
    uv("venv", "--quiet", "--python", sys.executable, str(environment))
    uv("pip", "install", "--quiet", "--no-deps", "--python", str(python), "-r", str(requirements), str(wheel))
    return Installed(python, tmp_path_factory.mktemp("elsewhere"))


def test_wheel_installs_one_import_name(installed: Installed) -> None:
    wheel = json.loads(
        installed.run(
            "-c",
            "import json; from importlib.metadata import packages_distributions as found;"
            "print(json.dumps([name for name, of in found().items() if 'agent-environment' in of]))",
        ).stdout
    )
    assert wheel == ["agentenv"]
    assert (installed.package / "py.typed").is_file()
    assert not (installed.package / "components").is_symlink()


def test_every_module_without_an_extra_is_importable(installed: Installed) -> None:
    ended = installed.run("-c", IMPORT_ALL)
    assert ended.returncode == 0, ended.stderr
    lacking = dict(line.split() for line in ended.stdout.splitlines())
    rooms = {".".join(name.split(".")[:2]) for name in lacking}
    assert rooms == {"agentenv.cli", "agentenv.dev", "agentenv.local", "agentenv.rehearsal", "agentenv.service"}
    parts_of_cli = {name.split(".")[2] for name in lacking if name.startswith("agentenv.cli.")}
    assert parts_of_cli <= {"commands", "generated", "prove", "review"}
    assert {extra_of(module) for module in lacking.values()} <= {"dev", "rehearsal", "service"}


@pytest.mark.parametrize("command", [row.name for row in COMMANDS])
def test_every_command_has_help(installed: Installed, command: str) -> None:
    ended = installed.agentenv(command, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"usage: agentenv {command}")


def test_files_are_read_outside_a_checkout(installed: Installed) -> None:
    shutil.copy(ROOT / "stacks" / "Pulumi.dev.yaml", installed.folder)
    (installed.folder / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}\n")
    assert installed.agentenv("check", "--file", "Pulumi.dev.yaml").stdout.endswith(", no mistakes\n")
    estimated = installed.agentenv("estimate", "--file", "Pulumi.dev.yaml", "--users", "10", "--json")
    assert json.loads(estimated.stdout.splitlines()[-1])["per_user_month"] > 0
    judged = json.loads(installed.agentenv("policies", "check", "pod.yaml", "--json").stdout.splitlines()[-1])
    assert judged["objects"] == 1
    assert judged["failed"] > 0


REFUSED = {
    "dev": "pip install 'agent-environment[dev]'",
    "rehearse": "pip install 'agent-environment[rehearsal]'",
    "review --stack dev": "pip install 'agent-environment[rehearsal]'",
    "releases --kubeconfig config": "pip install 'agent-environment[service]'",
    "estimate --file Pulumi.dev.yaml --plot plot.png": "pip install 'agent-environment[reports]'",
    "check": "there is no Pulumi.yaml",
    "estimate --stack dev": "there is no Pulumi.yaml",
    "waivers": "there is no Pulumi.yaml",
    "bench startup": "run this inside one",
    "preflight --file Pulumi.dev.yaml": "no AWS credentials were found",
    "prices refresh": "nothing was written",
    "cost report --bill bill.csv --ledger ledger.json": "ledger.json: No such file or directory",
    "workspace list": "there is no token",
}


@pytest.mark.parametrize("command", REFUSED)
def test_missing_extra_is_named_in_one_line(installed: Installed, command: str) -> None:
    shutil.copy(ROOT / "stacks" / "Pulumi.dev.yaml", installed.folder)
    ended = installed.agentenv(*command.split())
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"agentenv {command.split(maxsplit=1)[0]}: ")
    assert REFUSED[command] in line


def test_engine_reads_the_schema_of_installed_components(installed: Installed, opened: Stage) -> None:
    read = subprocess.run(
        [str(opened.pulumi), "package", "get-schema", str(installed.package / "components")],
        env={**opened.environment, "PULUMI_PYTHON_CMD": str(installed.python)},
        cwd=installed.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert read.returncode == 0, read.stderr
    schema: dict[str, Any] = json.loads(read.stdout)
    names = {name.removeprefix("agent-environment:index:") for name in schema["resources"]}
    assert names == {component.__name__ for component in EXPORTED_COMPONENTS}


def test_documented_program_is_previewed(installed: Installed, opened: Stage, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "components.md").read_text(encoding="utf-8")
    program, team = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "components").mkdir()
    (tmp_path / "__main__.py").write_text(program, encoding="utf-8")
    (tmp_path / "components" / "__init__.py").touch()
    (tmp_path / "components" / "team.py").write_text(team, encoding="utf-8")
    engine = opened.program(tmp_path, "dev", {"aws:region": "us-east-1"})
    described = yaml.safe_load((engine.project / "Pulumi.yaml").read_text(encoding="utf-8"))
    described["runtime"]["options"]["virtualenv"] = str(installed.python.parents[1])
    (engine.project / "Pulumi.yaml").write_text(yaml.safe_dump(described), encoding="utf-8")
    types = {step["urn"].split("::")[-2] for step in engine.preview().steps}
    assert {f"agent-environment:index:{name}" for name in ("Network", "Cluster", "SandboxClass")} <= types
    assert any(name.endswith("$aws:ec2/vpc:Vpc") for name in types)
    assert any("agent-environment:index:SandboxClass$kubernetes" in name for name in types)
