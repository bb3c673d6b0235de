"""Create and destroy a stack on this machine, with the real Pulumi engine.

The program runs against a simulated AWS on loopback: an update, a second update that must change nothing, manual
changes that a refresh must detect and an update repair, and a destroy that must leave nothing. No cloud account is
used. Missing tools are built once into a cache, which takes some minutes the first time.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentenv.cli.arguments import port_number
from agentenv.cli.main import FAILED, OK, CommandError

if TYPE_CHECKING:
    from pathlib import Path

    from agentenv.rehearsal.scenario.scenario import Report
    from agentenv.rehearsal.stage.engine import Engine
    from agentenv.rehearsal.stage.stage import Stage

# The policy packs that an update runs with
PACKS = ("isolation", "cost")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--stack", default="local", metavar="S", help="the stack to rehearse (default: local)")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="stop after the first workspace, keep everything running, print how to use it",
    )
    parser.add_argument(
        "--port", type=port_number, default=0, metavar="N", help="port of the simulated AWS (default: a free one)"
    )
    parser.add_argument(
        "--home-latency",
        type=milliseconds,
        default=0.0,
        metavar="MS",
        help="milliseconds that each operation on a home takes more, as over a network (default: 0)",
    )
    parser.add_argument(
        "--plugins",
        choices=("any", "official"),
        default="any",
        help="with `official`, refuse to start where the engine would use a stand-in for a plugin (default: any)",
    )
    parser.add_argument("--kept", action="store_true", help="list the rehearsals that are still running")
    parser.add_argument("--end", metavar="RUN", help="end a rehearsal that is still running, or 'all' of them")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object on the last line")


def milliseconds(text: str) -> float:
    """Parse a latency."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"'{text}' is not a latency: milliseconds from 0 to 1000")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Rehearse a stack, or list or end kept rehearsals."""
    from agentenv.local import run_folders

    if arguments.kept:
        return show_kept(run_folders.kept_runs(), as_json=arguments.json)
    if arguments.end:
        return end(arguments.end, as_json=arguments.json)
    if arguments.plugins == "official":
        check_official_plugins()
    return rehearse(
        arguments.stack,
        keep=arguments.keep,
        port=arguments.port,
        home_latency=arguments.home_latency,
        as_json=arguments.json,
    )


def rehearse(stack: str, *, keep: bool, port: int, home_latency: float, as_json: bool) -> int:
    """Run the whole scenario for one stack."""
    from agentenv.cli.commands.rehearse_tokens import token_signer
    from agentenv.cli.commands.rehearse_view import View
    from agentenv.cli.project import checkout
    from agentenv.cli.stack_files import selected_files, selected_settings
    from agentenv.rehearsal.scenario.scenario import Scenario, ScenarioError
    from agentenv.rehearsal.stage.cluster import ClusterOptions
    from agentenv.rehearsal.stage.engine import EngineError
    from agentenv.rehearsal.stage.policy_packs import prepare
    from agentenv.rehearsal.stage.stage import StageError, stage
    from agentenv.rehearsal.tools import ToolError

    project = checkout()
    ((file, _),) = selected_files(stack, None)
    check_stack_file(file, stack)
    settings = selected_settings(None, file)
    view = View(to_terminal=sys.stderr.isatty())
    try:
        options = replace(ClusterOptions.for_stack(settings), home_latency=home_latency)
        with view, stage(view.tools, port=port, cluster=options) as opened:
            view.opened(stack, opened)
            engine = opened.project(project, stack, view.event)
            packs = prepare([project / "policies" / name for name in PACKS], opened.run.folder / "packs")
            sign = token_signer(opened.cluster.plane.client) if opened.cluster else None
            scenario = Scenario(opened, engine, view, packs=packs, sign=sign)
            try:
                report = scenario.play(keep=keep)
            except (ScenarioError, EngineError) as failure:
                view.failed(str(failure), opened)
                scenario.report.error = str(failure)
                report_json(scenario.report, as_json=as_json)
                return FAILED
            if keep:
                report.kept = keep_running(opened, engine)
    except (StageError, ToolError) as failure:
        raise CommandError(str(failure)) from failure
    view.summary(report)
    report_json(report, as_json=as_json)
    return OK


def check_official_plugins() -> None:
    """Raise a `CommandError` that says how to install each official plugin that is missing."""
    from agentenv.rehearsal.tools import plugins

    if commands := plugins.missing_official():
        listed = "".join(f"\n  {command}" for command in commands)
        raise CommandError(f"{len(commands)} official plugins are missing:{listed}")


def check_stack_file(file: Path, stack: str) -> None:
    """Raise a `CommandError` with every mistake of a stack file, before anything is started."""
    from agentenv.cli.commands.check import as_text
    from agentenv.cli.stack_files import read_stack_file
    from agentenv.cli.terminal_text import text_width

    if mistakes := read_stack_file(file, stack).mistakes:
        text = as_text({file: mistakes}, {}, width=text_width(sys.stderr), colour=False)
        raise CommandError(f"the stack file has mistakes\n\n{text}")


def keep_running(opened: Stage, engine: Engine) -> dict[str, str]:
    """Keep the rehearsal running, print how to use it, and return the same for the report."""
    from agentenv.cli.workspaces.locate import TOKEN, TOKEN_FILE

    record: dict[str, Any] = opened.keep(engine)
    ways_in = connections(opened)
    variables = {**record["environment"], **ways_in}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(variables.items())]
    if TOKEN_FILE in ways_in:
        lines.append(f'export {TOKEN}="$(cat "${TOKEN_FILE}")"')
    script = opened.run.folder / "use.sh"
    script.touch(mode=0o600)  # it holds credentials
    script.write_text("\n".join([*lines, f"cd {shlex.quote(str(engine.project))}", ""]), encoding="utf-8")
    end = shlex.join([sys.argv[0], "rehearse", "--end", opened.run.id])
    sys.stderr.write(
        f"\nStill running as {opened.run.id}.\n"
        f"  use:  . {shlex.quote(str(script))}    (then: pulumi preview, aws ec2 describe-vpcs, …)\n"
        f"  end:  {end}\n"
    )
    sys.stderr.writelines(f"  {name}={value}\n" for name, value in ways_in.items())
    return {"run": opened.run.id, "folder": str(opened.run.folder), "use": str(script), "end": end}


def connections(opened: Stage) -> dict[str, str]:
    """Return the variables that lead kubectl and `agentenv workspace` to a kept rehearsal.

    The token is valid for a day. It is in a file that only its user reads, and is not printed.
    """
    from agentenv.cli.workspaces.locate import SERVICE, TOKEN_FILE
    from agentenv.rehearsal.scenario import service_probe
    from agentenv.rehearsal.scenario.pool_probe import audience_of

    if opened.cluster is None:
        return {}
    plane, folder = opened.cluster.plane, opened.cluster.plane.layout.folder
    found = {"KUBECONFIG": str(plane.layout.kubeconfig("admin"))}
    if service_probe.is_deployed(plane.client):
        service = service_probe.connect(plane.client, folder, audience_of(plane.client), "rehearsal", 86_400)
        file = opened.run.folder / "service.token"
        file.touch(mode=0o600)
        file.write_text(service.token, encoding="utf-8")
        found |= {SERVICE: service.address, TOKEN_FILE: str(file)}
    return found


def report_json(report: Report, *, as_json: bool) -> None:
    """Print the report as JSON on the last line."""
    if as_json:
        sys.stdout.write(json.dumps(report.as_json()) + "\n")


def show_kept(records: list[dict[str, Any]], *, as_json: bool) -> int:
    """List the kept rehearsals."""
    if as_json:
        sys.stdout.write(json.dumps({"kept": [{"run": row["run"], "folder": row["folder"]} for row in records]}) + "\n")
    elif not records:
        sys.stdout.write("no rehearsal is running\n")
    else:
        sys.stdout.writelines(f"{row['run']}  {row['folder']}\n" for row in records)
    return OK


def end(name: str, *, as_json: bool) -> int:
    """End one kept rehearsal, or all of them."""
    from agentenv.local import run_folders

    running = [str(row["run"]) for row in run_folders.kept_runs()]
    ended = [run_id for run_id in (running if name == "all" else [name]) if run_folders.finish(run_id)]
    if name != "all" and not ended:
        raise CommandError(f"no rehearsal '{name}' is running; running: {', '.join(running) or 'none'}")
    text = json.dumps({"ended": ended}) + "\n" if as_json else "".join(f"ended {run_id}\n" for run_id in ended)
    sys.stdout.write(text)
    return OK
