"""Run a Pulumi program: its command line, its environment, and the meaning of its exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agentenv.rehearsal.tools.python_host.protocol import language_pb2

if TYPE_CHECKING:
    from pathlib import Path

    from agentenv.rehearsal.tools.python_host.hosted_processes import Hosted
    from agentenv.rehearsal.tools.python_host.interpreter import Interpreter

# The exit code of the SDK's executor when it has already reported the error.
_REPORTED = 32


def command(
    request: language_pb2.RunRequest, python: Interpreter, executor: Path, engine: str, tracing: str
) -> list[str]:
    """Return the command line of the SDK's executor."""
    options = {
        "monitor": request.monitor_address,
        "engine": engine,
        "project": request.project,
        "root_directory": request.info.root_directory,
        "stack": request.stack,
        "pwd": request.pwd,
        "dry_run": "true" if request.dryRun else "false",
        "parallel": str(request.parallel),
        "tracing": tracing,
        "organization": request.organization,
    }
    arguments = [part for name, value in options.items() if value for part in (f"--{name}", value)]
    return [str(python.path), str(executor), *arguments, request.info.entry_point or ".", *request.args]


def environment(request: language_pb2.RunRequest, python: Interpreter) -> dict[str, str]:
    """Return the program's environment, with its configuration: other users can read command lines."""
    variables = python.environment()
    if request.config:
        variables["PULUMI_CONFIG"] = json.dumps(dict(request.config))
    variables["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(list(request.configSecretKeys))
    return variables


async def run(
    request: language_pb2.RunRequest, python: Interpreter, hosted: Hosted, *, executor: Path, engine: str, tracing: str
) -> language_pb2.RunResponse:
    """Run the program to its end."""
    if request.attach_debugger:
        return language_pb2.RunResponse(error="the stand-in language host cannot attach a debugger; run without one")
    if python.typechecker and (complaint := await _typecheck(request, python, hosted)):
        return language_pb2.RunResponse(error=complaint)
    started = command(request, python, executor, engine, tracing)
    try:
        process = await hosted.start(started, environment(request, python), captured=False)
    except OSError as error:
        return language_pb2.RunResponse(error=f"problem executing program (could not run {python.path}): {error}")
    return verdict(await hosted.wait(process))


def verdict(code: int) -> language_pb2.RunResponse:
    """Return the engine's response for a program's exit code."""
    if code == 0:
        return language_pb2.RunResponse()
    if code == _REPORTED:
        return language_pb2.RunResponse(bail=True)
    # A program that a signal ended has no exit code of its own.
    return language_pb2.RunResponse(error=f"program exited with non-zero exit code: {max(code, -1)}")


async def _typecheck(request: language_pb2.RunRequest, python: Interpreter, hosted: Hosted) -> str | None:
    folder = request.info.program_directory
    command = [str(python.path), "-m", str(python.typechecker), folder]
    process = await hosted.start(command, python.environment(), folder, captured=False)
    code = await hosted.wait(process)
    return f"{python.typechecker} found errors (exit code {code})" if code else None
