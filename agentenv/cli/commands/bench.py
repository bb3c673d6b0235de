"""Measure one thing, beside a baseline of the same run, and print both with their ratio.

Machines differ and are noisy: the ratio is what to compare, not the seconds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from types import ModuleType
from typing import Any

from agentenv.cli.main import OK, Refusal

BENCHES = {
    "startup": "how long the command itself takes to start, beside a bare Python",
    "preview": "a preview beside the engine's own price, and with more classes, seats and users",
    "rehearsal": "a warm rehearsal, beside the same engine calls on an empty program",
    "plane": "the control plane's start and memory, beside its API server and etcd alone",
    "claims": "a claim of a warm sandbox, bare and with storage of its own, beside a bare pod",
    "clients": "Kubernetes clients that the service could speak by",
    "attribution": "who owes what of a simulated month, beside the truth and OpenCost's way",
    "policies": "both policy packs over the prod stack, next to an empty pack and beside Checkov",
    "service": "a workspace by the service beside a raw claim, fifty at once, and ten thousand in its view",
    "gate": "a warm `make test`, beside its slowest part alone",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    listed = "\n".join(f"  {name:<10} {summary}" for name, summary in BENCHES.items())
    parser.epilog = f"benchmarks:\n{listed}"
    parser.add_argument("name", choices=sorted(BENCHES), metavar="NAME", help="one of the benchmarks below")
    parser.add_argument(
        "--repeat", type=int, default=3, metavar="N", help="runs of each side; the best counts (default: 3)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object on the last line")


def run(arguments: argparse.Namespace) -> int:
    """Run one benchmark."""
    if arguments.repeat < 1:
        raise Refusal(f"--repeat is {arguments.repeat}; it takes a whole number from 1")
    try:
        module = importlib.import_module(f"bench.{arguments.name}")
    except ModuleNotFoundError as missing:
        if missing.name not in {"bench", f"bench.{arguments.name}"}:
            raise
        raise Refusal(
            "the benchmarks are part of a checkout, not of the installed package; run this inside one"
        ) from None
    figures = measured(module, arguments.repeat)
    for name, value in figures.items():
        sys.stdout.write(f"{name:<22} {value}\n")
    if arguments.json:
        sys.stdout.write(json.dumps(figures) + "\n")
    return OK


def measured(module: ModuleType, repeat: int) -> dict[str, Any]:
    """The benchmark's figures; what keeps a stage from opening, or the engine from ending well, is told in words."""
    from agentenv.rehearsal.scenario.pool_probe import ProbeFailed
    from agentenv.rehearsal.stage.engine import EngineError
    from agentenv.rehearsal.stage.stage import StageError
    from agentenv.rehearsal.tools import ToolError

    try:
        return module.measure(repeat)
    except (EngineError, ProbeFailed, StageError, ToolError) as failure:
        raise Refusal(str(failure)) from failure
