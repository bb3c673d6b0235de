"""Measure both policy packs on the prod stack, compared with an empty pack and with Checkov.

The time that a pack adds to each resource is measured with the engine's requests, without the engine. The packs' share
of a preview is measured with the engine, with and without them. Checkov and this project each check the stack's
Kubernetes objects as manifests, from the command line, including the start.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from agentenv.cli.main import CommandError
from agentenv.cli.review.graph import Resource, is_unknown
from agentenv.cli.review.offline import settings_in
from agentenv.cli.review.preview import Call
from agentenv.cli.stack_files import stack_file
from agentenv.cli.stack_yaml import read_document
from agentenv.policies.packs.reporting import PACK_ERROR
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.engine import Engine, EngineError
from agentenv.rehearsal.stage.policy_packs import Packs, prepare
from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools.progress import Progress, terminal_progress
from bench import checkov
from bench.analyzing import analyzer, preview_variables, requests
from bench.timing import best

STACK = "prod"
# A violation for each pack
CANARIES = (
    Resource(
        "urn:pulumi:prod::bench::kubernetes:core/v1:Pod::bad",
        "kubernetes:core/v1:Pod",
        {"apiVersion": "v1", "kind": "Pod", "spec": {"hostPID": True, "containers": []}},
    ),
    Resource("urn:pulumi:prod::bench::aws:ec2/vpc:Vpc::bad", "aws:ec2/vpc:Vpc", {"cidrBlock": "10.0.0.0/16"}),
)
# Replaces unknown values, which manifests do not have
UNKNOWN_TEXT = "known-later"


def measure(repeat: int) -> dict[str, Any]:
    """Measure the packs. Each should add 0.3 ms or less to a resource."""
    root = Path(__file__).resolve().parent.parent
    progress = terminal_progress()
    with stage(progress) as opened:
        program = _program(opened, root)
        found = Call(program.pulumi, program.project, root, STACK, program.environment).preview()
        if found.refused:
            raise EngineError("preview", 1, "\n".join(found.errors))
        resources = list(found.after.values())
        sources = (root / "policies" / "isolation", root / "policies" / "cost", root / "bench" / "empty_pack")
        packs = prepare(sources, opened.run.folder / "packs")
        return {
            "resources": len(resources),
            **_added(packs, resources, repeat, pack_variables(root)),
            **_share(program, Packs(packs.folders[:2]), repeat),
            **_beside_checkov(resources, opened.run.folder / "manifests", repeat, progress),
        }


def _program(opened: Stage, root: Path) -> Engine:
    settings = settings_in(root, STACK)
    if settings is not None:
        opened.environment = {**opened.environment, **ClusterOptions.for_stack(settings).environment(opened.cloud)}
    return opened.project(root, STACK)


def pack_variables(root: Path) -> dict[str, str]:
    """Return the engine's variables for the stack, for the rules that read its settings."""
    project = yaml.safe_load((root / "Pulumi.yaml").read_text(encoding="utf-8"))["name"]
    return preview_variables(project, STACK, read_document(stack_file(root, STACK)).value["config"])


def _added(packs: Packs, resources: list[Resource], repeat: int, variables: dict[str, str]) -> dict[str, Any]:
    """Return the milliseconds that each pack adds to a resource, measured in turn and warm."""
    stack_requests = requests(resources)
    with ExitStack() as stack:
        isolation, cost, empty = [stack.enter_context(analyzer(folder, variables)) for folder in packs.folders]
        for pack in (isolation, cost, empty):
            pack.analyze(stack_requests)
            if PACK_ERROR in pack.analyze(stack_requests):
                raise EngineError("preview", 1, "a policy pack failed, so its time is unknown")
        sides = [lambda pack=pack: pack.analyze(stack_requests) for pack in (isolation, cost, empty)]
        milliseconds = [seconds * 1000 / len(resources) for seconds in best(max(repeat, 3), *sides)]
        # A pack that checks nothing would take no time
        canary_requests = requests(CANARIES)
        found = [pack.analyze(canary_requests) for pack in (isolation, cost, empty)]
        if not found[0] or not found[1] or found[2]:
            raise EngineError("preview", 1, "a policy pack has checked nothing")
    return {
        "empty_ms_per_resource": round(milliseconds[2], 3),
        "isolation_added_ms": round(milliseconds[0] - milliseconds[2], 3),
        "cost_added_ms": round(milliseconds[1] - milliseconds[2], 3),
    }


def _share(program: Engine, packs: Packs, repeat: int) -> dict[str, Any]:
    """Return the packs' share of a preview, including their start."""
    program.preview()
    plain, packed = best(repeat, program.preview, lambda: program.preview(*packs.options, check=False))
    return {
        "preview_s": round(plain, 2),
        "preview_with_packs_s": round(packed, 2),
        "share_of_preview": round(max(packed - plain, 0) / packed, 3),
    }


def _beside_checkov(resources: list[Resource], folder: Path, repeat: int, progress: Progress) -> dict[str, Any]:
    """Return the objects per second of this project and of Checkov, and their ratio."""
    count = write_manifests(resources, folder)
    try:
        checkov.scan(folder)
        ours, theirs = best(repeat, lambda: _check(folder), lambda: checkov.scan(folder))
    except CommandError as reason:
        progress.note(f"Checkov is not available, so there is nothing to compare with: {reason}")
        return {"checkov_ratio": None}
    return {
        "manifests": count,
        "manifests_per_s": round(count / ours, 1),
        "checkov_manifests_per_s": round(count / theirs, 1),
        "checkov_ratio": round(theirs / ours, 1),
    }


def _check(folder: Path) -> None:
    """Check a folder with this project's rules from the command line, whatever they find."""
    command = str(Path(sys.executable).parent / "agentenv")
    subprocess.run([command, "policies", "check", "--json", str(folder)], stdout=subprocess.DEVNULL, check=False)


def write_manifests(resources: Iterable[Resource], folder: Path) -> int:
    """Write the Kubernetes objects among the resources as files, and return their number."""
    folder.mkdir(parents=True)
    objects = [resource.inputs for resource in resources if resource.type.startswith("kubernetes:")]
    found = [inputs for inputs in objects if {"apiVersion", "kind"} <= set(inputs)]
    for number, document in enumerate(found):
        text = yaml.safe_dump(_without_unknowns(json.loads(json.dumps(document))), sort_keys=False)
        (folder / f"{number:04}.yaml").write_text(text, encoding="utf-8")
    return len(found)


def _without_unknowns(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_unknowns(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_unknowns(inner) for inner in value]
    return UNKNOWN_TEXT if is_unknown(value) else value
