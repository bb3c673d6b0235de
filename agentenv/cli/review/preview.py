"""Run a preview with the engine, and read its digest, its event log, and the two graphs that it compares."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentenv.cli.review.graph import Graph, from_state, graph

_NON_SPACE = re.compile(r"\S")
_OPTIONS = ("--non-interactive", "--color", "never")
# Steps after which the program does not have the resource. For a refresh step that is unknown.
_REMOVING_STEPS = frozenset({"delete", "delete-replaced", "discard", "discard-replaced", "refresh"})


class PreviewFailed(Exception):
    """The program could not be previewed. The message has the errors of the engine."""


@dataclass(frozen=True)
class PolicyEvent:
    """A violation of a policy pack."""

    pack: str
    policy: str
    level: str
    urn: str
    message: str

    @property
    def mandatory(self) -> bool:
        """Return whether it blocks the update."""
        return self.level == "mandatory"


@dataclass(frozen=True)
class Preview:
    """The result of a preview."""

    code: int
    steps: list[dict[str, Any]]
    before: Graph
    after: Graph
    policies: list[PolicyEvent] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def refused(self) -> bool:
        """Return whether the engine would refuse the update."""
        return self.code != 0


@dataclass(frozen=True)
class Call:
    """The engine's folder, stack and environment variables."""

    pulumi: Path
    project: Path
    root: Path  # of the program's own files
    stack: str
    environment: Mapping[str, str]

    def preview(self, *options: str) -> Preview:
        """Preview an update, with unchanged resources."""
        return self._run("preview", "--show-sames", *options)

    def refresh_preview(self) -> Preview:
        """Preview a refresh."""
        return self._run("refresh", "--preview-only")

    def _run(self, verb: str, *options: str) -> Preview:
        with tempfile.TemporaryDirectory(prefix="agentenv-review-") as scratch:
            events = Path(scratch) / "events"
            command = [str(self.pulumi), verb, "--stack", self.stack, *_OPTIONS, "--json", "--event-log", str(events)]
            result = subprocess.run(
                [*command, *options],
                cwd=self.project,
                env={**self.environment, "PULUMI_DEBUG_COMMANDS": "true"},  # without it there is no event log
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            log = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
        return read_preview(result.returncode, result.stdout, log, self.project, self.root, stderr=result.stderr)


def read_preview(code: int, digest: str, log: list[str], project: Path, root: Path, *, stderr: str = "") -> Preview:
    """Return the preview of a digest and an event log. `PreviewFailed` if the program did not run to its end."""
    steps, errors = _read_digest(digest)
    policies: list[PolicyEvent] = []
    outputs: dict[str, dict[str, Any]] = {}
    for line in log:
        event = _parse_event(line)
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
    # The digest repeats the errors of the log, with a prefix
    errors = list(dict.fromkeys(error.removeprefix("error: ") for error in errors if error))
    if steps is None or (not steps and code):
        # Without steps the changes are unknown, whatever the exit code
        message = "\n".join(errors) or stderr.strip() or digest.strip() or f"the engine ended with exit code {code}"
        raise PreviewFailed(message)
    before = [step["oldState"] for step in steps if step.get("oldState")]
    after = [step["newState"] for step in steps if step.get("newState") and step["op"] not in _REMOVING_STEPS]
    return Preview(
        code,
        steps,
        graph(from_state(state, project, root) for state in before),
        graph(from_state(state, project, root, outputs.get(state["urn"])) for state in after),
        policies,
        errors,
    )


def _read_digest(text: str) -> tuple[list[dict[str, Any]] | None, list[str]]:
    """Return the steps and the errors of a digest, or None for the steps if there is no digest.

    The engine and the program can print other text before it, even with braces. The digest ends the text.
    """
    for start in re.finditer(r"^\{", text, re.MULTILINE):
        try:
            document, end = json.JSONDecoder().raw_decode(text, start.start())
        except ValueError:
            continue
        if _NON_SPACE.search(text, end):
            continue
        rows = document.get("diagnostics") or ()
        errors = [row.get("message", "").strip() for row in rows if row.get("severity") == "error"]
        if errors or "steps" in document or "duration" in document:  # the digest of an empty stack has a duration alone
            return document.get("steps") or [], errors
    return None, []


def _parse_event(line: str) -> dict[str, Any]:
    """Parse an event. An incomplete last line is ignored."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
