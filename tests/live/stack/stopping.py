"""Operations of the engine that are stopped in the middle: cancelled as Ctrl-C does, or killed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
from typing import Any

import psutil

from agentenv.rehearsal.stage.engine import Engine, Event, Outcome


def stopped(engine: Engine, verb: str, at: str, number: signal.Signals) -> Outcome:
    """An operation whose engine gets a signal once a resource with that type is done.

    State is written as it goes, as for people; a rehearsal itself writes it at the end only.
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
    """The process that works on this project: a child of ours that writes its event log there."""
    for child in psutil.Process().children():
        # One that is ending this moment has no command line any more.
        with contextlib.suppress(psutil.Error):
            if any(str(engine.logs) in argument for argument in child.cmdline()):
                return child
    raise LookupError("no engine runs")
