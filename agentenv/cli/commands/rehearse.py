"""Bring a stack up on this machine and take it away again, under the real Pulumi engine.

The program runs against a simulated AWS on loopback: up, a second up that must change nothing, changes made by
hand that a refresh must notice and an update mend, and a destroy that must leave nothing. No cloud account is used or
needed. The tools that the machine lacks are built once into a cache, which takes some minutes the first time.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import FAILED, OK, Refusal

if TYPE_CHECKING:
    from pathlib import Path

    from agentenv.rehearsal.scenario.scenario import Report
    from agentenv.rehearsal.stage.engine import Engine
    from agentenv.rehearsal.stage.stage import Stage

# The policy packs that an update runs with
PACKS = ("isolation", "cost")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--stack", default="local", metavar="S", help="whose settings to rehearse (default: local)")
    parser.add_argument(
        "--keep", action="store_true", help="stop after the second up, leave all running, say how to use it"
    )
    parser.add_argument(
        "--port", type=port_number, default=0, metavar="N", help="the simulated AWS's port (default: a free one)"
    )
    parser.add_argument("--kept", action="store_true", help="list the rehearsals that were left running")
    parser.add_argument("--end", metavar="RUN", help="end a rehearsal that was left running, or 'all' of them")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object on the last line")


def port_number(text: str) -> int:
    """A port that a server of one's own may have."""
    if not text.isascii() or not text.isdigit() or not 1024 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port: a number from 1024 to 65535")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Rehearse, or look after rehearsals that were kept."""
    from agentenv.rehearsal.stage import run_folders

    if arguments.kept:
        return show_kept(run_folders.kept_runs(), as_json=arguments.json)
    if arguments.end:
        return end(arguments.end, as_json=arguments.json)
    return rehearse(arguments.stack, keep=arguments.keep, port=arguments.port, as_json=arguments.json)


def rehearse(stack: str, *, keep: bool, port: int, as_json: bool) -> int:
    """Play the whole course for one stack."""
    from agentenv.cli.commands.rehearse_view import View
    from agentenv.cli.project import root
    from agentenv.cli.stack_files import stack_file
    from agentenv.cli.stack_yaml import read_document
    from agentenv.config import read
    from agentenv.rehearsal.scenario.scenario import Scenario, ScenarioError
    from agentenv.rehearsal.stage.cluster import ClusterOptions
    from agentenv.rehearsal.stage.engine import EngineError
    from agentenv.rehearsal.stage.policy_packs import prepare
    from agentenv.rehearsal.stage.stage import StageError, stage
    from agentenv.rehearsal.tools import ToolError

    project = root()
    known_stack(project, stack)
    file = stack_file(project, stack)
    sound(file, stack)
    serving = ClusterOptions.for_stack(read(read_document(file).value.get("config") or {}, stack))
    view = View(to_terminal=sys.stderr.isatty())
    try:
        with view, stage(view.tools, port=port, cluster=serving) as opened:
            view.opened(stack, opened)
            engine = opened.project(project, stack, view.event)
            packs = prepare([project / "policies" / name for name in PACKS], opened.run.folder / "packs")
            course = Scenario(opened, engine, view, packs=packs)
            try:
                report = course.play(keep=keep)
            except (ScenarioError, EngineError) as failure:
                view.failed(str(failure), opened)
                course.report.error = str(failure)
                report_json(course.report, as_json=as_json)
                return FAILED
            if keep:
                report.kept = how_to_use(opened, engine)
    except (StageError, ToolError) as failure:
        raise Refusal(str(failure)) from failure
    view.summary(report)
    report_json(report, as_json=as_json)
    return OK


def sound(file: Path, stack: str) -> None:
    """Refuse a stack file with mistakes, listing them all, before anything is started."""
    from agentenv.cli.commands.check import as_text, width
    from agentenv.cli.stack_files import mistakes_in

    if found := mistakes_in(file, stack):
        raise Refusal("the stack file has mistakes\n\n" + as_text({file: found}, width=width(sys.stderr), colour=False))


def known_stack(project: Path, stack: str) -> None:
    """Refuse a stack without a file before anything is started."""
    folder = project / "stacks"
    if not (folder / f"Pulumi.{stack}.yaml").is_file():
        known = ", ".join(sorted(path.name.split(".")[1] for path in folder.glob("Pulumi.*.yaml")))
        raise Refusal(f"there is no stack '{stack}'; the stack files in {folder} are of: {known}")


def how_to_use(opened: Stage, engine: Engine) -> dict[str, str]:
    """Print what a shell needs to go on working with a kept rehearsal, and return it for the report."""
    record: dict[str, Any] = opened.keep(engine)
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(record["environment"].items())]
    script = opened.run.folder / "use.sh"
    script.write_text("\n".join([*lines, f"cd {shlex.quote(str(engine.project))}", ""]), encoding="utf-8")
    end = shlex.join([sys.argv[0], "rehearse", "--end", opened.run.id])
    sys.stderr.write(
        f"\nLeft running as {opened.run.id}.\n"
        f"  use it:  . {shlex.quote(str(script))}    (then: pulumi preview, aws ec2 describe-vpcs, …)\n"
        f"  end it:  {end}\n"
    )
    return {"run": opened.run.id, "folder": str(opened.run.folder), "use": str(script), "end": end}


def report_json(report: Report, *, as_json: bool) -> None:
    """The contract's object, on the last line."""
    if as_json:
        sys.stdout.write(json.dumps(report.as_json()) + "\n")


def show_kept(records: list[dict[str, Any]], *, as_json: bool) -> int:
    """List what was left running."""
    if as_json:
        sys.stdout.write(json.dumps({"kept": [{"run": row["run"], "folder": row["folder"]} for row in records]}) + "\n")
    elif not records:
        sys.stdout.write("no rehearsal was left running\n")
    else:
        sys.stdout.writelines(f"{row['run']}  {row['folder']}\n" for row in records)
    return OK


def end(name: str, *, as_json: bool) -> int:
    """End one kept rehearsal, or all of them."""
    from agentenv.rehearsal.stage import run_folders

    known = [str(row["run"]) for row in run_folders.kept_runs()]
    wanted = known if name == "all" else [name]
    ended = [run_id for run_id in wanted if run_folders.finish(run_id)]
    if name != "all" and not ended:
        raise Refusal(f"no rehearsal '{name}' was left running; there is: {', '.join(known) or 'none'}")
    sys.stdout.write(json.dumps({"ended": ended}) + "\n" if as_json else "".join(f"ended {one}\n" for one in ended))
    return OK
