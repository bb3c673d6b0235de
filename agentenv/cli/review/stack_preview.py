"""The preview of a real stack: with its state, its account and both packs, so that what is mandatory blocks."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from agentenv.cli.main import Refusal
from agentenv.cli.review.changes import Change, told
from agentenv.cli.review.findings import Judged
from agentenv.cli.review.preview import Call, Preview, inherited

PACKS: Final = ("isolation", "cost")
_SAID_ANYWAY: Final = ("preview failed",)


@dataclass(frozen=True)
class Selected:
    """What the engine says of a stack, and what it finds changed by hand; None where nobody looked."""

    preview: Preview
    drift: list[Change] | None


def call_of(root: Path, stack: str) -> Call:
    """The engine of whoever calls, with their login, account and plugins."""
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        raise Refusal(
            "the Pulumi CLI is not on PATH; --offline --base REV reviews without a stack, an account or a CLI"
        )
    return Call(Path(pulumi), root, root, stack, inherited())


def selected(call: Call, packs: Path, settings: Mapping[str, Any] | None = None, *, drift: bool = False) -> Selected:
    """Preview the stack with the packs under `packs`; with `drift`, look first at what is really there.

    The packs are then asked apart: a preview that refreshes shows the engine's stack policies what it deletes, too.
    What either would do is told: an update that does not look first goes by the state, also where somebody has put
    right by hand what can only be replaced; of what is gone nothing can be lost any more.
    """
    with tempfile.TemporaryDirectory(prefix="agentenv-packs-") as scratch:
        options: list[str] = []
        for name in PACKS:
            options += ["--policy-pack", str(packs / name)]
        for name in PACKS if settings else ():
            file = Path(scratch) / f"{name}.json"
            file.write_text(json.dumps({name: settings}), encoding="utf-8")
            options += ["--policy-pack-config", str(file)]
        if not drift:
            return Selected(call.preview(*options), None)
        looked = call.refreshed()
        wanted, judged = call.preview("--refresh"), call.preview(*options)
    errors = list(dict.fromkeys([*wanted.errors, *judged.errors]))
    changed = told(looked.steps, looked.before, looked.after)
    gone = {change.urn for change in changed if change.operation == "delete"}
    steps = [*wanted.steps, *(step for step in judged.steps if step["urn"] not in gone)]
    preview = replace(wanted, code=wanted.code or judged.code, steps=steps, policies=judged.policies, errors=errors)
    return Selected(preview, changed)


def refusals(preview: Preview, findings: list[Judged]) -> list[str]:
    """What the engine stops at that no finding says already: its own errors, and mandatory policies we did not find."""
    if not preview.refused:
        return []
    known = {(one.finding.rule, one.finding.urn) for one in findings if one.blocks}
    said = [
        f"{event.policy}: {' '.join(event.message.split())} ({event.urn.rsplit('::', 1)[-1]})"
        for event in preview.policies
        if event.mandatory and (event.policy, event.urn) not in known
    ]
    errors = [error for error in preview.errors if error not in _SAID_ANYWAY]
    if not said and not errors and not known:
        errors = preview.errors or [f"it ended with {preview.code}"]
    return list(dict.fromkeys([*said, *errors]))
