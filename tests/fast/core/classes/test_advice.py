"""Tests of the notes on classes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from agentenv.core.classes.advice import class_notes
from agentenv.core.classes.plan import plans
from tests.fast.config.stack_samples import fargate, sandbox, settings


def notes_of(class_: dict[str, Any]) -> list[str]:
    (plan,) = plans(settings({"sandboxClasses": [class_]}))
    return list(class_notes(plan))


def test_a_capability_that_allows_more_than_its_name_is_noted() -> None:
    assert notes_of(sandbox(capabilities=["dns", "web"])) == []
    (of_git,) = notes_of(sandbox(capabilities=["git"]))
    assert of_git.startswith("class standard: git opens TCP 22 and 443 to the whole internet")


def test_a_class_without_a_gate_is_noted() -> None:
    found = notes_of(sandbox(capabilities=["dns", "vpc", "api-server"]))
    assert ["strict mode" in note for note in found] == [False, True]


def test_a_fargate_class_that_reaches_no_registry_is_noted() -> None:
    (of_its_image,) = notes_of(fargate(capabilities=["dns"]))
    assert "Fargate is reported to pull images" in of_its_image
    assert notes_of(fargate(capabilities=["web"])) == []
    assert notes_of(fargate(capabilities=[{"cidr": "198.51.100.0/24", "ports": [443]}])) == []
    assert notes_of(sandbox(capabilities=["dns"])) == []


def test_locks_that_do_not_hold_between_kernels_are_noted() -> None:
    """Two gVisor sandboxes got the same `flock` on a real kubelet; gVisor keeps advisory locks to itself."""
    shared: dict[str, Any] = {"storage": {"kind": "shared"}}
    (note,) = notes_of(sandbox(**shared))
    assert "flock and fcntl locks of one do not exclude another" in note
    assert notes_of(sandbox(storage={"kind": "slot"})) == []
    assert notes_of(sandbox(tier="verified", claimableBy={"roles": ["operator"]}, **shared)) == []


def test_the_documented_lock_excludes_other_members(tmp_path: Path) -> None:
    text = (Path(__file__).parents[4] / "docs" / "workspaced.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"So this is a lock:\n\n```sh\n(.*?)```", text, re.DOTALL)
    (tmp_path / "count").write_text("0", encoding="utf-8")
    member = f'(\n{recipe}n=$(cat "$SHARED/count"); echo $((n + 1)) > "$SHARED/count"\n)\n'
    environment = {"PATH": os.environ["PATH"], "SHARED": str(tmp_path), "HOSTNAME": "member"}
    members = [subprocess.Popen(["bash", "-c", member * 5], env=environment) for _ in range(4)]
    assert [process.wait(60) for process in members] == [0] * 4
    assert (tmp_path / "count").read_text(encoding="utf-8").strip() == "20"
