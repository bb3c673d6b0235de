"""Operations of the engine that are interrupted: cancelled as by Ctrl-C, or killed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
from typing import Any

import psutil

from agentenv.rehearsal.stage.engine import Engine, Event, Outcome


def interrupted(engine: Engine, verb: str, at: str, number: signal.Signals) -> Outcome:
    """Run an operation whose engine gets a signal once a resource of a type is finished.

    The state is written after each resource, as it is for users; a rehearsal writes it once at the end.
    """
    sent: list[int] = []

    def listen(_: str, event: Event) -> None:
        done: dict[str, Any] = (event.get("resOutputsEvent") or {}).get("metadata") or {}
        if done.get("type") == at and not sent:
            sent.append(_engine_of(engine).pid)
            os.kill(sent[0], number)

    environment = {**engine.environment, "PULUMI_SKIP_CHECKPOINTS": "false"}
    listening = dataclasses.replace(engine, environment=environment, on_step=listen)
    outcome = listening.operate(verb, "--yes", "--skip-preview", check=False)
    assert sent, f"no {at} was done:\n{outcome.output}"
    return outcome


def _engine_of(engine: Engine) -> psutil.Process:
    """Return the engine's process: the child that writes the event log of this project."""
    for child in psutil.Process().children():
        # An ending process has no command line any more.
        with contextlib.suppress(psutil.Error):
            if any(str(engine.logs) in argument for argument in child.cmdline()):
                return child
    raise LookupError("no engine runs")
