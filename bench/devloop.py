"""Time a developer's steps in a workspace on its home, compared with the same steps on its local disk.

A workspace of the local stack runs under gVisor. Each operation on its home that a client of NFS sends to its server
takes a millisecond more, which is about what EFS takes; a real account has figures of its own. Nothing is fetched: the
repository and the packages are made in the sandbox (`devloop_steps.py`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from agentenv.cli.commands.rehearse_tokens import token_signer
from agentenv.cli.main import CommandError
from agentenv.core.classes.names import EXTENSIONS
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.scenario import command_probe, service_probe
from agentenv.rehearsal.scenario.service_probe import Service
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import stage
from agentenv.rehearsal.tools.progress import terminal_progress

Object = dict[str, Any]

LATENCY_MS = 1.0
_STEPS = Path(__file__).with_name("devloop_steps.py")
_READY_SECONDS, _STEPS_SECONDS = 60.0, 3600.0


def measure(repeat: int) -> dict[str, Any]:
    """Return the seconds of each step on both sides, the best of some runs each, and their ratio."""
    root = Path(__file__).resolve().parent.parent
    settings = yaml.safe_load((root / "Pulumi.yaml").read_text(encoding="utf-8"))
    config = yaml.safe_load((root / "stacks" / "Pulumi.local.yaml").read_text(encoding="utf-8"))["config"]
    config["agent-environment:sandboxClasses"][0] |= {"pool": {"size": 1}, "resources": {"burst": {"memory": "4Gi"}}}
    with stage(terminal_progress(), cluster=ClusterOptions(sandboxes=True, home_latency=LATENCY_MS)) as opened:
        if opened.cluster is None:
            raise CommandError("there is no cluster on this stage")
        plane = opened.cluster.plane
        opened.program(root / settings["main"], "local", config, settings).up()
        with service_probe.service_client(plane.client, plane.layout.folder) as service:
            pod, token = _workspace(plane.client, service)
            script = f"python3 - {repeat} <<'END'\n{_STEPS.read_text(encoding='utf-8')}\nEND"
            output = command_probe.run_script(pod, token, script, _STEPS_SECONDS)
    if output.code != 0:
        raise CommandError(f"a step failed: {output.stderr.strip()[-500:]}")
    sides: dict[str, dict[str, float]] = json.loads(output.stdout)
    ratios = {
        step: {"home_s": sides["home"][step], "local_s": local, "ratio": round(sides["home"][step] / local, 2)}
        for step, local in sides["local"].items()
    }
    return {"latency_ms": LATENCY_MS, **ratios}


def _workspace(client: Client, service: Service) -> tuple[Object, str]:
    """Return the pod of a new workspace, and a token with which commands run in it."""
    created = service.request("POST", "/v1/workspaces?wait=60", {"class": "standard", "key": "bench"})
    namespace = f"sandbox-{created['class']}"
    path = f"/apis/{EXTENSIONS}/namespaces/{namespace}/sandboxclaims/{created['id']}"
    claim_uid = client.get(path)["metadata"]["uid"]
    pod = client.get(f"/api/v1/namespaces/{namespace}/pods/{created['sandbox']}")
    if not command_probe.is_running(pod):
        raise CommandError("sandboxes do not run on this machine; `agentenv rehearse` says why")
    sign = token_signer(client)

    def admitted() -> str | None:
        try:
            token = sign(pod["metadata"]["uid"], claim_uid, command_probe.SCOPE)
            command_probe.run_script(pod, token, "true")
        except command_probe.CommandRefused:
            return None  # the keys are on their way to the pod
        return token

    token = until(admitted, _READY_SECONDS)
    if token is None:
        raise CommandError("no command runs in the workspace")
    return pod, token
