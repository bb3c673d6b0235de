"""Show how far old releases of sandbox classes are on their way out, and let them go.

A changed class has a new release beside the old one. The old one is marked once the new is full, emptied of the members
that nobody had, and removed when no claim names it; a pass takes each release one step further, so run it until nothing
is left to do. Sandboxes that somebody has are never touched. With --retire the volumes of claimed sandboxes that nobody
kept yet are kept first. Passes may run at once, and be ended at any time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import FAILED, OK, Refusal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from agentenv.service.kube.sync_client import SyncKubeClient
    from agentenv.service.workspaces.retain_volume import RetentionResult
    from agentenv.service.workspaces.retire_releases import RetirementResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--stack", "-s", metavar="S", help="whose cluster: the stack's output says how to reach it")
    where.add_argument("--kubeconfig", type=Path, metavar="F", help="a kubeconfig file that leads to the cluster")
    parser.add_argument("--retire", action="store_true", help="take the steps that may be taken now")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def run(args: argparse.Namespace) -> int:
    """Look, act if told to, and say what was found and done."""
    import httpx2
    from lightkube import ConfigError

    from agentenv.service.kube.sync_client import SyncKubeApiError, SyncKubeClient
    from agentenv.service.workspaces.retain_volume import retain_all_volumes
    from agentenv.service.workspaces.retire_releases import retire_releases

    try:
        cluster = SyncKubeClient.from_kubeconfig(args.kubeconfig) if args.kubeconfig else of_stack(args.stack)
        kept = retain_all_volumes(cluster) if args.retire else []
        found = retire_releases(cluster, act=args.retire)
    except (httpx2.HTTPError, ConfigError, SyncKubeApiError) as failure:
        raise Refusal(f"the API server did not answer as it should: {failure}") from None
    if args.json:
        sys.stdout.write(json.dumps(as_json(found, kept)) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in lines(found, kept)))
    refused = any(one.refused for one in found) or any(one.outcome == "refused" for one in kept)
    return FAILED if refused else OK


def of_stack(stack: str) -> SyncKubeClient:
    """The cluster of a stack that is up."""
    from agentenv.cli.project import root
    from agentenv.service.kube.sync_client import SyncKubeClient

    try:
        asked = subprocess.run(
            ["pulumi", "stack", "output", "kubeconfig", "--stack", stack, "--non-interactive"],
            cwd=root(),
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise Refusal(
            "pulumi is not on PATH, and knows the stack's cluster; or name a file with --kubeconfig"
        ) from None
    if asked.returncode:
        raise Refusal(f"the stack has no kubeconfig to offer: {asked.stderr.strip() or 'pulumi says nothing'}")
    try:
        document: Any = json.loads(asked.stdout)
    except ValueError:
        raise Refusal(f"the kubeconfig of stack {stack} is not one") from None
    return SyncKubeClient.from_kubeconfig_document(document)


def as_json(found: Iterable[RetirementResult], kept: Iterable[RetentionResult]) -> dict[str, Any]:
    """What was found and done, in plain words and lists."""
    return {
        "classes": [
            {
                "class": one.sandbox_class,
                "namespace": one.namespace,
                "current": dict(one.current),
                "steps": [asdict(step) for step in one.plan.steps],
                "done": [asdict(step) for step in one.done],
                "overtaken": [asdict(step) for step in one.overtaken],
                "waits": [asdict(wait) for wait in one.plan.waits],
                "refused": list(one.refused),
            }
            for one in found
        ],
        "kept": [asdict(one) for one in kept if one.outcome != "already"],
    }


def lines(found: Iterable[RetirementResult], kept: Iterable[RetentionResult]) -> Iterable[str]:
    """The same for a person: a class, its current releases, and a line for each old one."""
    for one in found:
        current = "; ".join(f"{channel}: {', '.join(names)}" for channel, names in one.current.items())
        yield f"{one.sandbox_class}  ({current})"
        for step in one.plan.steps:
            mark = "done" if step in one.done else "overtaken" if step in one.overtaken else "would"
            yield f"  {mark:<9} {step.do} {step.name}: {step.why}"
        for wait in one.plan.waits:
            yield f"  {'waits':<9} {wait.name}: {wait.why}"
        for words in one.refused:
            yield f"  {'refused':<9} {words}"
    for one in kept:
        if one.outcome != "already":
            yield f"{one.namespace}/{one.claim}  {one.outcome} {one.volume}{one.why and f': {one.why}'}"
