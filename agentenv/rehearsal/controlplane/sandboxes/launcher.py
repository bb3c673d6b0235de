"""The sandboxes of one plane, and the gateway to them: what starts and runs them, and what is not simulated."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentenv.local import processes
from agentenv.local.cgroups import detect as detect_cgroups
from agentenv.local.sandboxes import detect
from agentenv.local.sandboxes.bundle import Runtime
from agentenv.local.sandboxes.limits import Monitor
from agentenv.local.sandboxes.relay import Relay
from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.client import Client
from agentenv.rehearsal.controlplane.pods import gateway_pod
from agentenv.rehearsal.controlplane.pods.gateway_pod import GatewayPod
from agentenv.rehearsal.controlplane.pods.real_pods import PodRunner
from agentenv.rehearsal.controlplane.sandboxes.emptying_pod import EmptyingPod, empties_homes
from agentenv.rehearsal.controlplane.sandboxes.homes import FileSystems
from agentenv.rehearsal.controlplane.sandboxes.network_policies import NetworkPolicies
from agentenv.rehearsal.controlplane.sandboxes.sandbox_pod import Host, PodNetwork, SandboxPod, runs_workspaced

Object = dict[str, Any]

WORKSPACED, RUNSC, LATENCYFS, PODNETWORK = "workspaced", "runsc", "latencyfs", "podnetwork"
TOOLS = (WORKSPACED, RUNSC, PODNETWORK)
_RECORD = "sandboxes.json"
_LOG = logging.getLogger(__name__)
_NOT_SIMULATED = (
    "sandboxes: the internet (what policies grant of it is refused)",
    "sandboxes: UDP but to the resolver, ICMP, IPv6, and security groups of pods on Fargate",
    "sandboxes: images (they have this machine's programs)",
    "sandboxes: what init containers without a volume do",
)
_NO_WAY_OUT = "the way out of their network, whatever capabilities grant"


class SandboxLauncher:
    """Starts the pods of sandbox classes, once a runtime has been chosen."""

    def __init__(
        self,
        client: Client,
        folder: Path,
        programs: Mapping[str, Path],
        account: Account | None,
        *,
        home_latency: float = 0.0,
    ) -> None:
        """Choose a runtime, which delays each operation on homes by so many milliseconds."""
        self._client = client
        self._folder = folder
        self._programs = programs
        self._home_latency = home_latency
        self._host: Host | None = None
        self._file_systems = FileSystems(client, folder / "file-systems", account)
        self._chosen = threading.Event()
        if WORKSPACED in programs:
            threading.Thread(target=self._choose, name="sandbox runtime", daemon=True).start()

    def pod(self, pod: Object) -> PodRunner | None:
        """Return the runner of a pod; None for one that kwok simulates, or where none can run."""
        if WORKSPACED not in self._programs:
            return None
        if empties_homes(pod):
            return EmptyingPod(self._client, pod, self._file_systems)
        if re.search(gateway_pod.IMAGE, pod["spec"]["containers"][0].get("image", "")):
            return GatewayPod(self._client, self._folder, pod)
        if not runs_workspaced(pod):
            return None
        self._chosen.wait()
        return SandboxPod(self._host, pod) if self._host is not None else None

    def _choose(self) -> None:
        workspaced = self._programs[WORKSPACED]
        try:
            latency = (self._programs[LATENCYFS], self._home_latency) if self._home_latency else None
            runtime, passed_over = detect.choose(workspaced, self._programs.get(RUNSC), self._folder, latency)
            if runtime is None:
                write_record(self._folder, (), passed_over)
                _LOG.error("No sandbox can run here: %s", "; ".join(passed_over))
                return
            network, why_not = self._network(runtime, workspaced)
            cgroups, no_cgroups = detect_cgroups(os.environ.get(processes.MARK, ""))
            lacking = [f"{_NO_WAY_OUT} ({why_not})"] if network is None else []
            lacking += [f"limits of processors ({no_cgroups})"] if cgroups is None else []
            write_record(self._folder, (*runtime.not_simulated, *lacking), passed_over)
            _LOG.info("Sandboxes run in %s", runtime.name)
            self._host = Host(
                self._client,
                self._folder,
                workspaced,
                runtime,
                Relay(),
                Monitor(),
                self._file_systems,
                network,
                cgroups,
            )
        except Exception:  # noqa: BLE001 - pods wait for the choice
            _LOG.exception("The runtime of sandboxes could not be chosen")
        finally:
            self._chosen.set()

    def _network(self, runtime: Runtime, workspaced: Path) -> tuple[PodNetwork | None, str]:
        """Return what gives sandboxes their network, or why they have none."""
        program = self._programs.get(PODNETWORK)
        if program is None or not runtime.own_network:
            return None, f"{PODNETWORK} is not available" if program is None else "they have this machine's network"
        failure = detect.attempt(runtime, workspaced, self._folder / "sandboxes" / "try-network", program)
        if failure is not None:
            return None, failure
        return PodNetwork(program, NetworkPolicies(self._client, self._folder, self._client.address)), ""


def write_record(plane: Path, not_simulated: tuple[str, ...], passed_over: tuple[str, ...]) -> None:
    """Record what of sandboxes is not simulated, for the summary of the rehearsal."""
    record = {"not_simulated": not_simulated, "passed_over": passed_over}
    (plane / _RECORD).write_text(json.dumps(record), encoding="utf-8")


def not_simulated(plane: Path, missing: Mapping[str, str]) -> list[str]:
    """Return what of sandboxes a plane does not simulate, and why; `missing` are the tools that it lacks."""
    if WORKSPACED in missing:
        return [f"sandboxes: whatever runs in them ({missing[WORKSPACED]})"]
    try:
        record = json.loads((plane / _RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    why = f" ({'; '.join(record['passed_over'])})" if record["passed_over"] else ""
    return [*_NOT_SIMULATED, *(f"sandboxes: {line}{why}" for line in record["not_simulated"])]
