"""Run one benchmark and its baseline, and print both with their ratio.

Machines differ and are noisy: the ratio is what to compare, not the seconds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from types import ModuleType
from typing import Any

from agentenv.cli.main import OK, CommandError

BENCHES = {
    "startup": "start of the command, compared with a bare Python",
    "preview": "a preview, compared with the engine alone, and with more classes, seats and users",
    "rehearsal": "a warm rehearsal, compared with the same engine calls on an empty program",
    "plane": "start and memory of the control plane, compared with its API server and etcd alone",
    "claims": "a claim of a warm sandbox, with and without storage, compared with a bare pod",
    "clients": "the e2b client, compared with a raw claim and our own client; MCP, with exec; from pip to output",
    "connections": "Kubernetes clients that the service could use",
    "attribution": "cost attribution of a simulated month, compared with the exact result and OpenCost",
    "policies": "both policy packs on the prod stack, compared with an empty pack and with Checkov",
    "service": "a workspace from the service, compared with a raw claim; 50 at once; 10,000 listed",
    "creates": "creates for owners with 5,000 ledger rows, compared with a raw claim; or while remote services hang",
    "view": "the view of a replica with 100,000 workspaces: memory, pauses and pages",
    "devloop": "a developer's steps on a home with the latency of a network, compared with a local disk",
    "workspaced": "commands, output and files through workspaced, compared with a bare shell and with cp",
    "gateway": "a request through the gateway, compared with an authorizer that always allows; wakes; WebSockets",
    "console": "first paint of the console in Chromium, compared with a page of one heading",
    "gate": "a warm `make test`, compared with plain pytest",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    rows = "\n".join(f"  {name:<11} {summary}" for name, summary in BENCHES.items())
    parser.epilog = f"benchmarks:\n{rows}"
    parser.add_argument("name", choices=sorted(BENCHES), metavar="NAME", help="one of the benchmarks below")
    parser.add_argument(
        "--repeat", type=int, default=3, metavar="N", help="runs of each side, of which the best counts (default: 3)"
    )
    parser.add_argument(
        "--hanging",
        type=float,
        metavar="SECONDS",
        help="for `creates`: let each remote service hang this long, and compare creates meanwhile with others",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object on the last line")


def run(arguments: argparse.Namespace) -> int:
    """Run one benchmark."""
    if arguments.repeat < 1:
        raise CommandError(f"--repeat is {arguments.repeat}; allowed is a whole number from 1")
    options: dict[str, float] = {}
    if (hanging := arguments.hanging) is not None:
        if arguments.name != "creates" or hanging < 0:
            raise CommandError(f"--hanging is {hanging}; allowed are seconds, with the benchmark `creates`")
        options["hanging_seconds"] = hanging
    try:
        module = importlib.import_module(f"bench.{arguments.name}")
    except ModuleNotFoundError as missing:
        if missing.name not in {"bench", f"bench.{arguments.name}"}:
            raise
        raise CommandError(
            "the benchmarks are part of a checkout, not of the installed package; run this inside one"
        ) from None
    figures = measure(module, arguments.repeat, **options)
    for name, value in figures.items():
        sys.stdout.write(f"{name:<22} {value}\n")
    if arguments.json:
        sys.stdout.write(json.dumps(figures) + "\n")
    return OK


def measure(module: ModuleType, repeat: int, **options: float) -> dict[str, Any]:
    """Return the benchmark's figures. Errors of the stage and the engine become a `CommandError`."""
    from agentenv.rehearsal.scenario.pool_probe import ProbeFailed
    from agentenv.rehearsal.stage.engine import EngineError
    from agentenv.rehearsal.stage.stage import StageError
    from agentenv.rehearsal.tools import ToolError

    try:
        return module.measure(repeat, **options)
    except (EngineError, ProbeFailed, StageError, ToolError) as failure:
        raise CommandError(str(failure)) from failure
