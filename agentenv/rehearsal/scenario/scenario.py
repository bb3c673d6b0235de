"""Run the scenario of a rehearsal: up, second up, drift, mend, destroy; and report the result."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from agentenv.rehearsal.controlplane.client import ApiError
from agentenv.rehearsal.scenario import command_probe, destroy_check, drift, pool_probe, service_probe
from agentenv.rehearsal.stage.credentials import client
from agentenv.rehearsal.stage.engine import Engine, Outcome
from agentenv.rehearsal.stage.policy_packs import VERDICTS, Packs
from agentenv.rehearsal.stage.stage import Stage, StageError


class Listener(Protocol):
    """Receives the progress of a rehearsal."""

    def started(self, step: str) -> None:
        """Report that a step has started."""

    def finished(self, step: str, seconds: float, result: str) -> None:
        """Report that a step has succeeded."""


class ScenarioError(Exception):
    """A step of the scenario failed."""


@dataclass
class Report:
    """The result of a rehearsal; the names are those of the command's JSON contract."""

    up_seconds: float = 0.0
    resources: int = 0
    second_up_changes: int | None = None
    drift: dict[str, int] = field(default_factory=dict)
    left_after_destroy: int | None = None
    left: list[str] = field(default_factory=list)
    retained: list[str] = field(default_factory=list)  # resources that outlive their stack on purpose
    error: str | None = None
    policy: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(VERDICTS, 0),
    )
    policy_findings: list[dict[str, str]] = field(default_factory=list)
    pools: list[dict[str, Any]] = field(default_factory=list)
    new_workspace_ms: float | None = None
    first_command_ms: float | None = None  # from the request for a workspace to the output of a command in it
    wake_ms: float | None = None  # of the request for a file of a suspended workspace, by its host
    gateway_added_ms: float | None = None  # by which a request by host is slower than one at the pod
    not_simulated: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    kept: dict[str, str] | None = None  # how to reach a rehearsal that was left running

    def as_json(self) -> dict[str, Any]:
        """Return the object that `agentenv rehearse --json` prints."""
        return asdict(self)


@dataclass
class Scenario:
    """Runs one stack on one stage."""

    stage: Stage
    engine: Engine
    listener: Listener
    report: Report = field(default_factory=Report)
    packs: Packs = field(default_factory=Packs)
    sign: command_probe.Signer | None = None  # signs tokens for commands in workspaces, as the stack's service does
    _not_simulated: list[str] = field(default_factory=list)  # parts of the service that cannot run here

    def play(self, *, keep: bool = False) -> Report:
        """Run every step in order; with `keep`, everything stays up after the first workspace."""
        self.up()
        self.again()
        self.workspace()
        if not keep:
            self.drift()
            self.away()
        self.report.not_simulated = [
            *self.stage.query("kept"),
            *self.stage.not_simulated(),
            *(f"unknown: {name}" for name in self.stage.query("unknown")),
            *self._not_simulated,
        ]
        return self.report

    def up(self) -> None:
        """Create every resource of the stack."""
        with self._step("up") as result:
            outcome = self.engine.up(*self.packs.options)
            self.report.up_seconds = round(outcome.seconds, 2)
            self.report.resources = outcome.resources
            self.report.policy = self.packs.counts_by_verdict()
            self.report.policy_findings = self.packs.findings()
            result.append(f"{outcome.resources} resources")
            if not self.packs.completed:
                raise ScenarioError("a policy pack did not complete, and has not evaluated the whole stack")

    def again(self) -> None:
        """Check that a second update changes nothing."""
        with self._step("second up") as result:
            outcome = self.engine.up()
            self.report.second_up_changes = outcome.changed
            if outcome.changed:
                raise ScenarioError(f"a second up changed {outcome.changed} resources:\n{_listed(outcome)}")
            result.append("0 changes")

    def workspace(self) -> None:
        """Create a workspace from a warm pool, if the stage has a cluster."""
        if self.stage.cluster is None:
            return
        with self._step("workspace") as result:
            plane = self.stage.cluster.plane
            measurement = pool_probe.measure(
                plane.client, plane.layout.folder, self.sign, self.stage.query("balancers")
            )
            if measurement.through_service:
                self._not_simulated = list(service_probe.NOT_SIMULATED)
            self.report.pools, self.report.new_workspace_ms = measurement.pools, measurement.new_workspace_ms
            pools = ", ".join(f"{row['class']} {row['ready']}/{row['size']}" for row in measurement.pools)
            by = " through the service" if measurement.through_service else ""
            result.append(f"{pools} sandboxes Ready, a new workspace{by} in {measurement.new_workspace_ms:.0f} ms")
            if measurement.first_command_ms is not None:
                self.report.first_command_ms = measurement.first_command_ms
                result.append(f"the first command in it after {measurement.first_command_ms:.0f} ms")
            if (entry := measurement.entry) is not None:
                self.report.wake_ms, self.report.gateway_added_ms = entry.wake_ms, entry.gateway_added_ms
                result.append(
                    f"a server in it opened by its host, {entry.gateway_added_ms:.1f} ms slower than at its pod"
                )
                result.append(f"woken by a request in {entry.wake_ms:.0f} ms, and closed to a stranger")
            if measurement.slot is not None:
                result.append("with files of its own, the same after a sleep")

    def drift(self) -> None:
        """Change resources outside the engine; a refresh must notice each, and an update mend each."""
        with self._step("changed by hand") as result:
            applied = drift.apply_changes(self._client, self.engine.state())
            result.append("; ".join(change.row.description for change in applied) or "nothing to change")
        with self._step("refresh") as result:
            noticed = {urn for _, urn, _ in self.engine.refresh().changed_resources()}
            missed = [change for change in applied if change.urn not in noticed]
            if missed:
                raise ScenarioError("a refresh did not notice: " + "; ".join(row.row.description for row in missed))
            result.append(f"{len(applied)} of {len(applied)} noticed")
        with self._step("mend") as result:
            self.engine.up()
            reverted = drift.reverted(self._client, applied)
            self.report.drift = {"made": len(applied), "noticed": len(applied) - len(missed), "mended": len(reverted)}
            if len(reverted) < len(applied):
                broken = [change.row.description for change in applied if change not in reverted]
                raise ScenarioError("an update did not mend: " + "; ".join(broken))
            result.append(f"{len(reverted)} of {len(applied)} mended")

    def away(self) -> None:
        """Destroy everything; nothing may remain in the state or in the cloud."""
        state = self.engine.state()
        if protected := destroy_check.protected(state):
            self._unprotect(protected, state)
        with self._step("destroy") as result:
            self.engine.destroy()
            in_state = [f"state {resource['urn']}" for resource in self.engine.state()]
            self.report.retained, in_cloud = destroy_check.split_retained(
                self.stage.leftovers(), destroy_check.retained(state)
            )
            self.report.left = [*in_state, *in_cloud]
            self.report.left_after_destroy = len(self.report.left)
            if self.report.left:
                raise ScenarioError("destroy left behind:\n" + "\n".join(f"  {name}" for name in self.report.left))
            retained = len(self.report.retained)
            result.append(
                f"nothing left but {retained} that outlive the stack on purpose" if retained else "nothing left"
            )

    def _unprotect(self, protected: list[str], state: list[dict[str, Any]]) -> None:
        """Check that a destroy of protected resources is refused, then unprotect them."""
        with self._step("protected") as result:
            refused = self.engine.destroy_with_preview()
            deleted = len(state) - len(self.engine.state())
            if not refused.code or deleted:
                raise ScenarioError(f"a destroy of {len(protected)} protected resources went on, and deleted {deleted}")
            self.engine.unprotect()
            destroy_check.disable_deletion_protection(self._client, state)
            result.append(f"destroy refused for the sake of {len(protected)}, then unprotected")

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
    def _step(self, step: str) -> Iterator[list[str]]:
        self.listener.started(step)
        began = time.monotonic()
        result: list[str] = []
        try:
            yield result
        except (StageError, pool_probe.ProbeFailed) as failure:
            raise ScenarioError(str(failure)) from failure
        except (ApiError, ConnectionError) as failure:
            raise ScenarioError(f"the control plane: {failure}") from failure
        except (BotoCoreError, ClientError) as failure:
            # Drift is created through boto3: an endpoint that died in between shows here
            raise ScenarioError(f"the simulated cloud: {failure}\n{self.stage.cloud_log_tail()}") from failure
        seconds = time.monotonic() - began
        self.report.seconds[step] = round(seconds, 2)
        self.listener.finished(step, seconds, ", ".join(result))


def _listed(outcome: Outcome) -> str:
    return "\n".join(
        f"  {op:<8} {urn.rsplit('::', 2)[-2]}::{urn.rsplit('::', 1)[-1]} {', '.join(keys)}"
        for op, urn, keys in outcome.changed_resources()
    )
