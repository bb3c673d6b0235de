"""Preview a real stack, with its state, its account and both policy packs."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from agentenv.cli.main import CommandError
from agentenv.cli.review.changes import Change, changes_from_steps
from agentenv.cli.review.findings import ReviewFinding
from agentenv.cli.review.preview import Call, Preview

PACKS: Final = ("isolation", "cost")
_GENERIC_ERRORS: Final = ("preview failed",)


@dataclass(frozen=True)
class StackPreview:
    """The preview of a stack, and its drift, None if it was not checked."""

    preview: Preview
    drift: list[Change] | None


def engine_call(root: Path, stack: str) -> Call:
    """Return the call of the engine on PATH, with the caller's login, account and plugins."""
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        raise CommandError(
            "the Pulumi CLI is not on PATH; --offline --base REV reviews without a stack, an account or a CLI"
        )
    return Call(Path(pulumi), root, root, stack, dict(os.environ))


def preview_stack(
    call: Call, packs: Path, settings: Mapping[str, Any] | None = None, *, drift: bool = False
) -> StackPreview:
    """Preview the stack with the packs under `packs`; with `drift`, detect drift first.

    With `drift` the packs run in a second preview, because a preview with a refresh also shows deleted resources to the
    stack policies. The steps of both count: an update without a refresh follows the state, even if a manual change has
    already done what the update would replace. Steps for deleted resources are left out, because nothing can be lost.
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
            return StackPreview(call.preview(*options), None)
        refresh = call.refresh_preview()
        refreshed, with_packs = call.preview("--refresh"), call.preview(*options)
    errors = list(dict.fromkeys([*refreshed.errors, *with_packs.errors]))
    changes = changes_from_steps(refresh.steps, refresh.before, refresh.after)
    deleted = {change.urn for change in changes if change.operation == "delete"}
    steps = [*refreshed.steps, *(step for step in with_packs.steps if step["urn"] not in deleted)]
    code = refreshed.code or with_packs.code
    preview = replace(refreshed, code=code, steps=steps, policies=with_packs.policies, errors=errors)
    return StackPreview(preview, changes)


def engine_refusals(preview: Preview, findings: list[ReviewFinding]) -> list[str]:
    """Return what stops the engine beside the findings: its own errors, and mandatory violations without a finding."""
    if not preview.refused:
        return []
    known = {(row.finding.rule, row.finding.urn) for row in findings if row.blocks}
    violations = [
        f"{event.policy}: {' '.join(event.message.split())} ({event.urn.rsplit('::', 1)[-1]})"
        for event in preview.policies
        if event.mandatory and (event.policy, event.urn) not in known
    ]
    errors = [error for error in preview.errors if error not in _GENERIC_ERRORS]
    if not violations and not errors and not known:
        errors = preview.errors or [f"the engine ended with exit code {preview.code}"]
    return list(dict.fromkeys([*violations, *errors]))
