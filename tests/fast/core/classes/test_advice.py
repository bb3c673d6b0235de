"""Tests of the notes on classes."""

from __future__ import annotations

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
