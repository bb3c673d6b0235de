"""The real engine with both packs, over a program whose resources are written in its configuration."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentenv.policies.rules.registry import all_rules
from agentenv.rehearsal.tools import ensure, terminal_progress
from tests.engine.rehearsal.conftest import Engine, alone

PACKS = Path(__file__).parents[3] / "policies"
PROGRAM = Path(__file__).parent / "broken"


@dataclass(frozen=True)
class Told:
    """A violation as the engine told of it."""

    rule: str
    level: str
    severity: str
    resource: str
    message: str


@dataclass
class Reviewed:
    """A stack with both packs."""

    engine: Engine
    packs: Path

    def configure(self, resources: Sequence[Mapping[str, Any]], **config: Any) -> None:
        """Say which resources the program registers."""
        said = {"trial:resources": json.dumps(resources), **config}
        (self.engine.folder / "Pulumi.dev.yaml").write_text(yaml.safe_dump({"config": said}), encoding="utf-8")

    def preview(self, *packs: str, config: Mapping[str, Any] | None = None, verb: str = "preview") -> tuple[int, str]:
        """Run it with packs: the exit code, and what the engine printed."""
        options: list[str] = []
        for name in packs or ("isolation",):
            options += ["--policy-pack", str(self.packs / name)]
            if config is not None:
                path = self.engine.folder / f"{Path(name).name}.json"
                key = name if name == "cost" else "isolation"
                path.write_text(json.dumps({key: config}), encoding="utf-8")
                options += ["--policy-pack-config", str(path)]
        self.events.unlink(missing_ok=True)
        ended = self.engine.run(verb, *options, "--event-log", str(self.events))
        return ended.returncode, ended.stdout

    @property
    def events(self) -> Path:
        """The engine's own account."""
        return self.engine.folder / "events"

    @staticmethod
    def others(*ids: str, family: str = "") -> list[str]:
        """All rules but those named, or those of one family: what a test is not about."""
        return [one.id for one in all_rules() if one.id not in ids and one.id.startswith(family)]

    def remediated(self) -> dict[str, Any]:
        """What remediation made of resources in the last run, by their names."""
        found: dict[str, Any] = {}
        for line in self.events.read_text(encoding="utf-8").splitlines():
            if said := json.loads(line).get("policyRemediationEvent"):
                found[said["resourceUrn"].rsplit("::", 1)[-1]] = said.get("after")
        return found

    def told(self) -> list[Told]:
        """The violations of the last run."""
        return list(self._told())

    def _told(self) -> Iterator[Told]:
        for line in self.events.read_text(encoding="utf-8").splitlines():
            if said := json.loads(line).get("policyEvent"):
                name = said.get("resourceUrn", "").rsplit("::", 1)[-1]
                yield Told(
                    said["policyName"], said["enforcementLevel"], said.get("severity", ""), name, said["message"]
                )


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Reviewed:
    """One stack for a module's tests: they do no more than look."""
    toolbox = ensure(["pulumi", "language-python-exec"], terminal_progress())
    folder = tmp_path_factory.mktemp("reviewed")
    engine = alone(folder, toolbox.path("pulumi"), toolbox.path("language-python-exec"))
    engine.environment["PULUMI_DEBUG_COMMANDS"] = "true"  # the engine hides its event log otherwise
    shutil.copy(PROGRAM / "__main__.py", engine.folder)
    runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": sys.prefix}}
    (engine.folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "trial", "runtime": runtime}), encoding="utf-8")
    begun = engine.run("stack", "init", "dev")
    assert begun.returncode == 0, begun.stdout
    return Reviewed(engine, PACKS)
