"""One preview under the engine: its digest, its event log, and the two graphs that it compares."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentenv.cli.review.graph import Graph, from_state, graph

_MORE = re.compile(r"\S")
_QUIET = ("--non-interactive", "--color", "never")
# Steps that end with nothing that the program wants; of a refresh it is not said whether it wants the thing
_NOT_WANTED = frozenset({"delete", "delete-replaced", "discard", "discard-replaced", "refresh"})


class PreviewFailed(Exception):
    """The engine did not get to the end of the program; the message is what it said."""


@dataclass(frozen=True)
class PolicyEvent:
    """What a policy pack said of a resource."""

    pack: str
    policy: str
    level: str
    urn: str
    message: str

    @property
    def mandatory(self) -> bool:
        """Whether the engine stops at it."""
        return self.level == "mandatory"


@dataclass(frozen=True)
class Preview:
    """What one preview found."""

    code: int
    steps: list[dict[str, Any]]
    before: Graph
    after: Graph
    policies: list[PolicyEvent] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def refused(self) -> bool:
        """Whether the engine would not go on."""
        return self.code != 0


@dataclass(frozen=True)
class Call:
    """How the engine is called: where, on which stack, under which variables."""

    pulumi: Path
    project: Path
    root: Path  # of the program's own files
    stack: str
    environment: Mapping[str, str]

    def preview(self, *options: str) -> Preview:
        """Preview an update: every resource that is wanted, those too that stay as they are."""
        return self._run("preview", "--show-sames", *options)

    def refreshed(self) -> Preview:
        """Preview what a refresh would take into the state."""
        return self._run("refresh", "--preview-only")

    def _run(self, verb: str, *options: str) -> Preview:
        with tempfile.TemporaryDirectory(prefix="agentenv-review-") as scratch:
            events = Path(scratch) / "events"
            given = [str(self.pulumi), verb, "--stack", self.stack, *_QUIET, "--json", "--event-log", str(events)]
            ended = subprocess.run(
                [*given, *options],
                cwd=self.project,
                env={**self.environment, "PULUMI_DEBUG_COMMANDS": "true"},  # without it there is no event log
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            log = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
        return read(ended.returncode, ended.stdout, log, self.project, self.root, said=ended.stderr)


def read(code: int, digest: str, log: list[str], project: Path, root: Path, *, said: str = "") -> Preview:
    """A preview from its digest and its event log; `PreviewFailed` where the program itself did not get to its end."""
    steps, told = _digest(digest)
    policies: list[PolicyEvent] = []
    outputs: dict[str, dict[str, Any]] = {}
    errors: list[str] = list(told)
    for line in log:
        event = _parsed(line)
        if policy := event.get("policyEvent"):
            policies.append(
                PolicyEvent(
                    policy.get("policyPackName", ""),
                    policy.get("policyName", ""),
                    policy.get("enforcementLevel", ""),
                    policy.get("resourceUrn", ""),
                    policy.get("message", ""),
                )
            )
        elif ended := event.get("resOutputsEvent"):
            new = ended["metadata"].get("new") or {}
            outputs[ended["metadata"]["urn"]] = new.get("outputs") or outputs.get(ended["metadata"]["urn"]) or {}
        elif (diagnostic := event.get("diagnosticEvent")) and diagnostic.get("severity") == "error":
            errors.append(diagnostic["message"].strip())
    # The digest says again what the log said, with a word before it
    errors = list(dict.fromkeys(error.removeprefix("error: ") for error in errors if error))
    if steps is None or (not steps and code):
        # Whatever its code: nobody knows then what it would do
        raise PreviewFailed("\n".join(errors) or said.strip() or digest.strip() or f"the engine ended with {code}")
    before = [step["oldState"] for step in steps if step.get("oldState")]
    after = [step["newState"] for step in steps if step.get("newState") and step["op"] not in _NOT_WANTED]
    return Preview(
        code,
        steps,
        graph(from_state(state, project, root) for state in before),
        graph(from_state(state, project, root, outputs.get(state["urn"])) for state in after),
        policies,
        errors,
    )


def _digest(text: str) -> tuple[list[dict[str, Any]] | None, list[str]]:
    """The steps, and the errors that the digest tells; None where there is no digest to be read.

    The engine and the program may have printed other things before it, with braces in them: it is what ends the text.
    """
    for start in re.finditer(r"^\{", text, re.MULTILINE):
        try:
            found, end = json.JSONDecoder().raw_decode(text, start.start())
        except ValueError:
            continue
        if _MORE.search(text, end):
            continue
        rows = found.get("diagnostics") or ()
        told = [row.get("message", "").strip() for row in rows if row.get("severity") == "error"]
        if told or "steps" in found or "duration" in found:  # of an empty stack it says how long that took, and no more
            return found.get("steps") or [], told
    return None, []


def _parsed(line: str) -> dict[str, Any]:
    """An event; a last line that was only half written is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def inherited() -> dict[str, str]:
    """The variables of whoever calls, for a preview of a real stack."""
    return dict(os.environ)
