"""Run a proof: deploy a stack, test each promise, and destroy the stack whatever happens.

A run has a deadline. What cannot be tested in time is not tried, so that the destroy always has its share of it. A run
that was killed left a journal, from which a later one resumes or cleans up.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from agentenv.cli.main import CommandError
from agentenv.cli.prove import engine_promises, isolation_promises, workspace_promises
from agentenv.cli.prove.promises import Broken, NotTried, Outcome, Promise, Verdict
from agentenv.client import ClientError as ServiceError
from agentenv.client.connect_json import SandboxError
from agentenv.rehearsal.controlplane.client import ApiError
from agentenv.rehearsal.stage.engine import EngineError

if TYPE_CHECKING:
    from agentenv.cli.prove.deployment import Deployment
    from agentenv.cli.prove.journal import Journal

BETWEEN: tuple[Promise, ...] = (
    *engine_promises.FIRST,
    *workspace_promises.PROMISES,
    *isolation_promises.PROMISES,
    engine_promises.DRIFT,
    workspace_promises.ACCOUNTING,
)
PROMISES = (engine_promises.UP, *BETWEEN, engine_promises.DESTROY)
# The share of the deadline that a destroy has to itself.
DESTROY_SECONDS = 2400.0
_FAILURES = (
    *(Broken, EngineError, ApiError, ServiceError, SandboxError, BotoCoreError, ClientError, CommandError, OSError),
)


class Proof:
    """One run over the promises."""

    def __init__(self, deployment: Deployment, journal: Journal, seconds: float) -> None:
        self._deployment, self._journal = deployment, journal
        self._until = journal.began + seconds

    def run(self, *, clean_up_only: bool = False) -> None:
        """Test the promises that have no outcome yet, and destroy the stack."""
        with _interruptible():
            engine = self._deployment.engine
            try:
                if not clean_up_only and not self._journal.destroying:
                    self._deployment.engine = replace(engine, until=self._until - DESTROY_SECONDS)
                    self._promises()
            finally:
                self._deployment.engine = engine
                # A second signal abandons the destroy, and leaves a journal that is unfinished.
                self._destroy()

    def _destroy(self) -> None:
        """Destroy the stack, and finish the journal where nothing is left."""
        journal, last = self._journal, engine_promises.DESTROY
        journal.outcomes = [outcome for outcome in journal.outcomes if outcome.name != last.name]
        journal.destroying = True
        journal.write()
        for promise in PROMISES:
            if promise != last and promise.name not in journal.names:
                self._record(promise, "not tried", "the run was interrupted before it")
        try:
            self._deployment.release()
        except _FAILURES as failure:  # it goes with the cluster, unless that was adopted
            self._deployment.report(f"the service account of the tests was not deleted: {failure}")
        self._try(last)
        journal.finished = self._outcome(last.name) == "held"
        journal.write()

    def _promises(self) -> None:
        self._try(engine_promises.UP)
        if self._outcome(engine_promises.UP.name) != "held":
            for promise in BETWEEN:
                self._record(promise, "not tried", "the stack did not come up")
            return
        for promise in BETWEEN:
            if time.time() > self._until - DESTROY_SECONDS:
                self._record(promise, "not tried", "no time is left before the destroy")
            else:
                self._try(promise)

    def _try(self, promise: Promise) -> None:
        if promise.name in self._journal.names:
            return
        self._deployment.report(promise.statement)
        began = time.monotonic()
        try:
            evidence = promise.test(self._deployment)
        except NotTried as reason:
            self._record(promise, "not tried", str(reason), time.monotonic() - began)
        except _FAILURES as failure:
            self._record(promise, "broken", str(failure) or type(failure).__name__, time.monotonic() - began)
        else:
            self._record(promise, "held", evidence, time.monotonic() - began)

    def _record(self, promise: Promise, verdict: Verdict, evidence: str, seconds: float = 0.0) -> None:
        if promise.name in self._journal.names:
            return
        text = " ".join(evidence.split())
        outcome = Outcome(promise.name, promise.statement, verdict, text, round(seconds, 1))
        self._journal.record(outcome)
        self._deployment.report(f"  {verdict}: {text}")

    def _outcome(self, name: str) -> str | None:
        return next((outcome.verdict for outcome in self._journal.outcomes if outcome.name == name), None)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM interrupt as Ctrl-C does, so that the stack is destroyed."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before: Callable[[int, FrameType | None], object] | int | None = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
