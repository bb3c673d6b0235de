"""The components as a package: its schema, and a program in another process that uses it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from agentenv.components.package import EXPORTED_COMPONENTS
from agentenv.rehearsal.stage.engine import Engine
from agentenv.rehearsal.stage.stage import Stage

ROOT = Path(__file__).resolve().parents[3]


def consumer(opened: Stage, nat: str) -> Engine:
    return opened.program(
        Path(__file__).parent / "remote_program",
        "dev",
        {"aws:region": "us-east-1", "remote-program:nat": nat},
        {
            "name": "remote-program",
            "plugins": {"providers": [{"name": "agent-environment", "path": str(ROOT / "components")}]},
        },
    )


def test_engine_reads_the_schema(opened: Stage) -> None:
    read = subprocess.run(
        [str(opened.pulumi), "package", "get-schema", str(ROOT / "components")],
        env=dict(opened.environment),
        cwd=opened.run.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert read.returncode == 0, read.stderr
    schema: dict[str, Any] = json.loads(read.stdout)
    assert schema["name"] == "agent-environment"
    assert {name.removeprefix("agent-environment:index:") for name in schema["resources"]} == {
        component.__name__ for component in EXPORTED_COMPONENTS
    }


def test_program_in_another_process_gets_a_network(opened: Stage) -> None:
    # A preview constructs the component as an update does.
    planned = consumer(opened, "single").preview()
    steps = {step["urn"].rsplit("::", 2)[-2]: step for step in planned.steps}
    assert "agent-environment:index:Network" in steps
    assert "agent-environment:index:Network$aws:ec2/vpc:Vpc" in steps
    assert planned.changes["create"] > 20


def test_wrong_argument_from_another_process_is_named(opened: Stage) -> None:
    refused = consumer(opened, "both").preview(check=False)
    assert refused.code != 0
    assert "agent-environment:network.nat" in "\n".join(refused.diagnostics)
