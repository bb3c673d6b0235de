"""The course of a rehearsal: up, again, changed by hand, mended, away; and the report of it."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from agentenv.rehearsal.controlplane.client import ApiError
from agentenv.rehearsal.scenario import destroy_check as parting
from agentenv.rehearsal.scenario import drift as tampering
from agentenv.rehearsal.scenario import pool_probe as probe
from agentenv.rehearsal.scenario import service_probe as serving
from agentenv.rehearsal.stage.credentials import client
from agentenv.rehearsal.stage.engine import Engine, Outcome
from agentenv.rehearsal.stage.policy_packs import FIGURES, Packs
from agentenv.rehearsal.stage.stage import Stage, StageError


class Listener(Protocol):
    """Who is told how the rehearsal goes."""

    def began(self, what: str) -> None:
        """A step has begun."""

    def ended(self, what: str, seconds: float, result: str) -> None:
        """A step has ended well."""


class CourseError(Exception):
    """A step whose result is not what it has to be."""


@dataclass
class Report:
    """What a rehearsal found; the names are those of the command's JSON contract."""

    up_seconds: float = 0.0
    resources: int = 0
    second_up_changes: int | None = None
    drift: dict[str, int] = field(default_factory=dict)
    left_after_destroy: int | None = None
    left: list[str] = field(default_factory=list)
    retained: list[str] = field(default_factory=list)  # what outlives its stack on purpose
    error: str | None = None
    policy: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(FIGURES, 0),
    )
    pools: list[dict[str, Any]] = field(default_factory=list)
    new_workspace_ms: float | None = None
    not_simulated: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    kept: dict[str, str] | None = None  # where a rehearsal that was left running is found

    def as_json(self) -> dict[str, Any]:
        """The object that `agentenv rehearse --json` prints."""
        return asdict(self)


@dataclass
class Course:
    """Plays one stack on one stage."""

    stage: Stage
    engine: Engine
    listener: Listener
    report: Report = field(default_factory=Report)
    packs: Packs = field(default_factory=Packs)
    _beyond: list[str] = field(default_factory=list)  # what of the service cannot be tried here

    def play(self, *, keep: bool = False) -> Report:
        """Every step in its order; with `keep` everything stays up after the second update."""
        self.up()
        self.again()
        self.workspace()
        if not keep:
            self.drift()
            self.away()
        self.report.not_simulated = [
            *self.stage.ask("kept"),
            *self.stage.pretended(),
            *(f"unknown: {name}" for name in self.stage.ask("unknown")),
            *self._beyond,
        ]
        return self.report

    def up(self) -> None:
        """Bring everything up from nothing."""
        with self._step("up") as result:
            outcome = self.engine.up(*self.packs.options)
            self.report.up_seconds = round(outcome.seconds, 2)
            self.report.resources = outcome.resources
            self.report.policy = self.packs.figures()
            result.append(f"{outcome.resources} resources")
            if not self.packs.recorded:
                raise CourseError("a policy pack did not get to its end, and has judged nothing of the whole stack")

    def again(self) -> None:
        """A second update must have nothing to do."""
        with self._step("second up") as result:
            outcome = self.engine.up()
            self.report.second_up_changes = outcome.changed
            if outcome.changed:
                raise CourseError(f"a second up changed {outcome.changed} resources:\n{_listed(outcome)}")
            result.append("0 changes")

    def workspace(self) -> None:
        """Make a workspace out of a warm pool, where the stage has a cluster."""
        if self.stage.cluster is None:
            return
        with self._step("workspace") as result:
            plane = self.stage.cluster.plane
            found = probe.measure(plane.client, plane.layout.folder)
            if found.through_service:
                self._beyond = list(serving.NOT_SIMULATED)
            self.report.pools, self.report.new_workspace_ms = found.pools, found.new_workspace_ms
            pools = ", ".join(f"{row['class']} {row['ready']}/{row['size']}" for row in found.pools)
            by = " through the service" if found.through_service else ""
            result.append(f"{pools} sandboxes Ready, a new workspace{by} in {found.new_workspace_ms:.0f} ms")
            if found.slot is not None:
                result.append("with files of its own, the same after a sleep")

    def drift(self) -> None:
        """Change things by hand: a refresh must notice each, and an update mend each."""
        with self._step("changed by hand") as result:
            done = tampering.tamper(self._client, self.engine.state())
            result.append("; ".join(tampered.row.done for tampered in done) or "nothing to change")
        with self._step("refresh") as result:
            noticed = {urn for _, urn, _ in self.engine.refresh().touched()}
            missed = [tampered for tampered in done if tampered.urn not in noticed]
            if missed:
                raise CourseError("a refresh did not notice: " + "; ".join(row.row.done for row in missed))
            result.append(f"{len(done)} of {len(done)} noticed")
        with self._step("mend") as result:
            self.engine.up()
            fixed = tampering.mended(self._client, done)
            self.report.drift = {"made": len(done), "noticed": len(done) - len(missed), "mended": len(fixed)}
            if len(fixed) < len(done):
                broken = [tampered.row.done for tampered in done if tampered not in fixed]
                raise CourseError("an update did not mend: " + "; ".join(broken))
            result.append(f"{len(fixed)} of {len(done)} mended")

    def away(self) -> None:
        """Destroy everything; nothing may be left, in the state or in the cloud."""
        state = self.engine.state()
        if guarded := parting.protected(state):
            self._unprotect(guarded, state)
        with self._step("destroy") as result:
            self.engine.destroy()
            in_state = [f"state {resource['urn']}" for resource in self.engine.state()]
            self.report.retained, in_cloud = parting.told_apart(self.stage.left(), parting.retained(state))
            self.report.left = [*in_state, *in_cloud]
            self.report.left_after_destroy = len(self.report.left)
            if self.report.left:
                raise CourseError("destroy left behind:\n" + "\n".join(f"  {name}" for name in self.report.left))
            stays = len(self.report.retained)
            result.append(f"nothing left but {stays} that outlive the stack on purpose" if stays else "nothing left")

    def _unprotect(self, guarded: list[str], state: list[dict[str, Any]]) -> None:
        """A stack that protects its data refuses to go, and goes once somebody says that it may."""
        with self._step("protected") as result:
            refused = self.engine.destroy_as_asked()
            gone = len(state) - len(self.engine.state())
            if not refused.code or gone:
                raise CourseError(f"a destroy of {len(guarded)} protected resources went on, and deleted {gone}")
            self.engine.unprotect()
            parting.unlock(self._client, state)
            result.append(f"destroy refused for the sake of {len(guarded)}, then unprotected")

    @functools.cached_property
    def _clients(self) -> dict[str, Any]:
        return {}

    def _client(self, service: str) -> Any:
        if service == "kubernetes" and self.stage.cluster is not None:
            return self.stage.cluster.plane.client
        if service not in self._clients:
            self._clients[service] = client(service, self.engine.environment)
        return self._clients[service]

    @contextmanager
    def _step(self, what: str) -> Iterator[list[str]]:
        self.listener.began(what)
        began = time.monotonic()
        result: list[str] = []
        try:
            yield result
        except (StageError, probe.ProbeFailed) as failure:
            raise CourseError(str(failure)) from failure
        except (ApiError, ConnectionError) as failure:
            raise CourseError(f"the control plane: {failure}") from failure
        except (BotoCoreError, ClientError) as failure:
            # What was changed by hand is changed by boto3: an endpoint that died in between says so here
            raise CourseError(f"the simulated cloud: {failure}\n{self.stage.last_words()}") from failure
        seconds = time.monotonic() - began
        self.report.seconds[what] = round(seconds, 2)
        self.listener.ended(what, seconds, ", ".join(result))


def _listed(outcome: Outcome) -> str:
    return "\n".join(
        f"  {op:<8} {urn.rsplit('::', 2)[-2]}::{urn.rsplit('::', 1)[-1]} {', '.join(keys)}"
        for op, urn, keys in outcome.touched()
    )
