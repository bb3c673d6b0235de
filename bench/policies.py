"""Both policy packs over the prod stack, next to an empty pack of the same shape, and beside Checkov.

What a pack adds to the SDK's own price of a resource is taken by asking it what the engine asks, without an engine; the
packs' share of a preview is taken under the real one, of the same program with and without them. Checkov and our own
rules each judge the stack's Kubernetes objects as manifests, from the command line, start included.
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
from bench.analyzing import analyzer, previewing, questions
from bench.timing import best

STACK = "prod"
# What each of our packs has to find something wrong with
CANARIES = (
    Resource(
        "urn:pulumi:prod::bench::kubernetes:core/v1:Pod::bad",
        "kubernetes:core/v1:Pod",
        {"apiVersion": "v1", "kind": "Pod", "spec": {"hostPID": True, "containers": []}},
    ),
    Resource("urn:pulumi:prod::bench::aws:ec2/vpc:Vpc::bad", "aws:ec2/vpc:Vpc", {"cidrBlock": "10.0.0.0/16"}),
)
# Stands where a value is not known yet: manifests have no such thing
LATER = "known-later"


def measure(repeat: int) -> dict[str, Any]:
    """Each pack adds 0.3 ms or less to a resource."""
    root = Path(__file__).resolve().parent.parent
    news = terminal_progress()
    with stage(news) as opened:
        program = _program(opened, root)
        found = Call(program.pulumi, program.project, root, STACK, program.environment).preview()
        if found.refused:
            raise EngineError("preview", 1, "\n".join(found.errors))
        resources = list(found.after.values())
        sources = (root / "policies" / "isolation", root / "policies" / "cost", root / "bench" / "empty_pack")
        packs = prepare(sources, opened.run.folder / "packs")
        return {
            "resources": len(resources),
            **_added(packs, resources, repeat, around(root)),
            **_share(program, Packs(packs.folders[:2]), repeat),
            **_beside_checkov(resources, opened.run.folder / "manifests", repeat, news),
        }


def _program(opened: Stage, root: Path) -> Engine:
    settings = settings_in(root, STACK)
    if settings is not None:
        opened.environment = {**opened.environment, **ClusterOptions.for_stack(settings).environment(opened.cloud)}
    return opened.project(root, STACK)


def around(root: Path) -> dict[str, str]:
    """What the engine would say of the stack: rules that read its settings have some then."""
    project = yaml.safe_load((root / "Pulumi.yaml").read_text(encoding="utf-8"))["name"]
    return previewing(project, STACK, read_document(stack_file(root, STACK)).value["config"])


def _added(packs: Packs, resources: list[Resource], repeat: int, told: dict[str, str]) -> dict[str, Any]:
    """The packs by turns, each of them warm."""
    asked = questions(resources)
    with ExitStack() as held:
        isolation, cost, empty = [held.enter_context(analyzer(folder, told)) for folder in packs.folders]
        for one in (isolation, cost, empty):
            one.review(asked)
            if PACK_ERROR in one.review(asked):
                raise EngineError("preview", 1, "a policy pack broke on the way, and what it costs is not known")
        sides = [lambda one=one: one.review(asked) for one in (isolation, cost, empty)]
        taken = [seconds * 1000 / len(resources) for seconds in best(max(repeat, 3), *sides)]
        # A pack that judges nothing would cost nothing
        judged = questions(CANARIES)
        if not isolation.review(judged) or not cost.review(judged) or empty.review(judged):
            raise EngineError("preview", 1, "a policy pack has judged nothing")
    return {
        "empty_ms_per_resource": round(taken[2], 3),
        "isolation_added_ms": round(taken[0] - taken[2], 3),
        "cost_added_ms": round(taken[1] - taken[2], 3),
    }


def _share(program: Engine, packs: Packs, repeat: int) -> dict[str, Any]:
    """How much of a preview with both packs is theirs, their start included."""
    program.preview()
    plain, packed = best(repeat, program.preview, lambda: program.preview(*packs.options, check=False))
    return {
        "preview_s": round(plain, 2),
        "preview_with_packs_s": round(packed, 2),
        "share_of_preview": round(max(packed - plain, 0) / packed, 3),
    }


def _beside_checkov(resources: list[Resource], folder: Path, repeat: int, news: Progress) -> dict[str, Any]:
    """Objects a second, ours over theirs."""
    count = write_manifests(resources, folder)
    try:
        command = checkov.installed(news.note)
        checkov.judge(command, folder)
        ours, theirs = best(repeat, lambda: _judge(folder), lambda: checkov.judge(command, folder))
    except checkov.NoCheckovError as reason:
        news.note(f"Checkov cannot be had, so there is nothing to compare with: {reason}")
        return {"checkov_ratio": None}
    return {
        "manifests": count,
        "manifests_per_s": round(count / ours, 1),
        "checkov_manifests_per_s": round(count / theirs, 1),
        "checkov_ratio": round(theirs / ours, 1),
    }


def _judge(folder: Path) -> None:
    """Our own rules from the command line; what they find there is another matter."""
    command = str(Path(sys.executable).parent / "agentenv")
    subprocess.run([command, "policies", "check", "--json", str(folder)], stdout=subprocess.DEVNULL, check=False)


def write_manifests(resources: Iterable[Resource], folder: Path) -> int:
    """The Kubernetes objects among resources as files, and how many those are."""
    folder.mkdir(parents=True)
    objects = [one.inputs for one in resources if one.type.startswith("kubernetes:")]
    found = [inputs for inputs in objects if {"apiVersion", "kind"} <= set(inputs)]
    for number, document in enumerate(found):
        text = yaml.safe_dump(_known(json.loads(json.dumps(document))), sort_keys=False)
        (folder / f"{number:04}.yaml").write_text(text, encoding="utf-8")
    return len(found)


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _known(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_known(inner) for inner in value]
    return LATER if is_unknown(value) else value
