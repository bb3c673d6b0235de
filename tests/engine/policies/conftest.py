"""The real engine with both packs, for a program that registers the resources in its configuration."""

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
from tests.isolated_engine import Engine, isolated_engine

PACKS = Path(__file__).parents[3] / "policies"
PROGRAM = Path(__file__).parent / "broken"


@dataclass(frozen=True)
class Violation:
    """A policy violation in the engine's event log."""

    rule: str
    level: str
    severity: str
    resource: str
    message: str


@dataclass
class PackStack:
    """A stack with both packs."""

    engine: Engine
    packs: Path

    def configure(self, resources: Sequence[Mapping[str, Any]], **config: Any) -> None:
        """Set the resources that the program registers."""
        values = {"trial:resources": json.dumps(resources), **config}
        (self.engine.folder / "Pulumi.dev.yaml").write_text(yaml.safe_dump({"config": values}), encoding="utf-8")

    def preview(self, *packs: str, config: Mapping[str, Any] | None = None, verb: str = "preview") -> tuple[int, str]:
        """Run the engine with packs; return the exit code and the output."""
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
        """Return the path of the engine's event log."""
        return self.engine.folder / "events"

    @staticmethod
    def others(*ids: str, family: str = "") -> list[str]:
        """Return the ids of all rules, or of a family, except some."""
        return [rule.id for rule in all_rules() if rule.id not in ids and rule.id.startswith(family)]

    def remediated(self) -> dict[str, Any]:
        """Return the remediated inputs of the last run, by the names of resources."""
        inputs: dict[str, Any] = {}
        for line in self.events.read_text(encoding="utf-8").splitlines():
            if event := json.loads(line).get("policyRemediationEvent"):
                inputs[event["resourceUrn"].rsplit("::", 1)[-1]] = event.get("after")
        return inputs

    def violations(self) -> list[Violation]:
        """Return the violations of the last run."""
        return list(self._violations())

    def _violations(self) -> Iterator[Violation]:
        for line in self.events.read_text(encoding="utf-8").splitlines():
            if event := json.loads(line).get("policyEvent"):
                name = event.get("resourceUrn", "").rsplit("::", 1)[-1]
                yield Violation(
                    event["policyName"], event["enforcementLevel"], event.get("severity", ""), name, event["message"]
                )


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> PackStack:
    """Return a stack for the tests of a module, which only preview it."""
    toolbox = ensure(["pulumi", "language-python-exec"], terminal_progress())
    folder = tmp_path_factory.mktemp("reviewed")
    engine = isolated_engine(folder, toolbox.path("pulumi"), toolbox.path("language-python-exec"))
    engine.environment["PULUMI_DEBUG_COMMANDS"] = "true"  # the engine hides its event log otherwise
    shutil.copy(PROGRAM / "__main__.py", engine.folder)
    runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": sys.prefix}}
    (engine.folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "trial", "runtime": runtime}), encoding="utf-8")
    created = engine.run("stack", "init", "dev")
    assert created.returncode == 0, created.stdout
    return PackStack(engine, PACKS)
