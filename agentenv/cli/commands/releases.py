"""Show the retirement status of old releases of sandbox classes, and retire them.

A changed class has a new release beside the old one. The old release is marked once the pool of the new one is full,
its unclaimed sandboxes are deleted, and it is deleted when no claim uses it. One run takes each release one step
further, so repeat it until no step is left. Claimed sandboxes are never changed. With --retire, the volumes of claimed
sandboxes are retained first. Runs can overlap, and can be interrupted at any time.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import FAILED, OK, CommandError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from agentenv.service.kube.client import KubeClient
    from agentenv.service.workspaces.retain_volume import RetentionResult
    from agentenv.service.workspaces.retire_releases import RetirementResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--stack", "-s", metavar="S", help="the stack, whose output has the kubeconfig")
    where.add_argument("--kubeconfig", type=Path, metavar="F", help="the kubeconfig file of the cluster")
    parser.add_argument("--retire", action="store_true", help="take the steps that are possible now")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def run(args: argparse.Namespace) -> int:
    """Show the status of each class, and with --retire take the next steps."""
    import httpx2
    from lightkube import ConfigError

    from agentenv.service.kube.client import KubeApiError, KubeClient

    try:
        cluster = KubeClient.from_kubeconfig(args.kubeconfig) if args.kubeconfig else stack_client(args.stack)
        retentions, retirements = asyncio.run(_retire(cluster, act=args.retire))
    except (httpx2.HTTPError, ConfigError, KubeApiError) as error:
        raise CommandError(f"the request to the API server failed: {error}") from None
    if args.json:
        sys.stdout.write(json.dumps(as_json(retirements, retentions)) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in lines(retirements, retentions)))
    refused = any(result.refused for result in retirements)
    refused = refused or any(result.outcome == "refused" for result in retentions)
    return FAILED if refused else OK


async def _retire(cluster: KubeClient, *, act: bool) -> tuple[list[RetentionResult], list[RetirementResult]]:
    """Retain the volumes of claimed sandboxes if `act`, and look at every class."""
    from agentenv.service.workspaces.retain_volume import retain_all_volumes
    from agentenv.service.workspaces.retire_releases import retire_releases

    try:
        retentions = await retain_all_volumes(cluster) if act else []
        return retentions, await retire_releases(cluster, act=act)
    finally:
        await cluster.close()


def stack_client(stack: str, start: Path | None = None) -> KubeClient:
    """Return a client for the cluster of a deployed stack, of the project around a folder."""
    from agentenv.service.kube.client import KubeClient

    document = stack_output(stack, "kubeconfig", start)
    return KubeClient.from_kubeconfig_document(document)


def stack_output(stack: str, name: str, start: Path | None = None) -> Any:
    """Return an output of a deployed stack, of the project around a folder (default: the current one)."""
    from agentenv.cli.project import project

    try:
        output = subprocess.run(
            ["pulumi", "stack", "output", name, "--json", "--stack", stack, "--non-interactive"],
            cwd=project(start).folder,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise CommandError("pulumi is not on PATH, and is needed to read the stack's outputs") from None
    if output.returncode:
        raise CommandError(f"the stack has no output {name}: {output.stderr.strip() or 'pulumi printed no error'}")
    try:
        value: Any = json.loads(output.stdout)
        # The kubeconfig is a text of JSON itself.
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        raise CommandError(f"the output {name} of stack {stack} is not JSON") from None


def as_json(retirements: Iterable[RetirementResult], retentions: Iterable[RetentionResult]) -> dict[str, Any]:
    """Return the results as the command's JSON has them."""
    return {
        "classes": [
            {
                "class": result.sandbox_class,
                "namespace": result.namespace,
                "current": dict(result.current),
                "steps": [asdict(step) for step in result.plan.steps],
                "done": [asdict(step) for step in result.done],
                "overtaken": [asdict(step) for step in result.overtaken],
                "waits": [asdict(wait) for wait in result.plan.waits],
                "refused": list(result.refused),
            }
            for result in retirements
        ],
        "kept": [asdict(result) for result in retentions if result.outcome != "already"],
    }


def lines(retirements: Iterable[RetirementResult], retentions: Iterable[RetentionResult]) -> Iterable[str]:
    """Yield each class with its current releases, and a line for each old release."""
    for result in retirements:
        current = "; ".join(f"{channel}: {', '.join(names)}" for channel, names in result.current.items())
        yield f"{result.sandbox_class}  ({current})"
        for step in result.plan.steps:
            status = "done" if step in result.done else "overtaken" if step in result.overtaken else "would"
            yield f"  {status:<9} {step.do} {step.name}: {step.why}"
        for wait in result.plan.waits:
            yield f"  {'waits':<9} {wait.name}: {wait.why}"
        for reason in result.refused:
            yield f"  {'refused':<9} {reason}"
    for volume in retentions:
        if volume.outcome != "already":
            reason = f": {volume.why}" if volume.why else ""
            yield f"{volume.namespace}/{volume.claim}  {volume.outcome} {volume.volume}{reason}"
