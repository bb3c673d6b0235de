"""Run a plugin that is written in Python: a policy pack, or a folder of components.

Its output is streamed to the engine, which reads the plugin's port from the first line.
"""

from __future__ import annotations

import asyncio
import contextlib
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.rehearsal.tools.python_host.interpreter import BadOption
from agentenv.rehearsal.tools.python_host.policy_proxy import PolicyProxy
from agentenv.rehearsal.tools.python_host.protocol import language_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from agentenv.rehearsal.tools.python_host.hosted_processes import Hosted
    from agentenv.rehearsal.tools.python_host.interpreter import Interpreter

ANALYZER = "analyzer"
_CHUNK = 64 * 1024


def command(request: language_pb2.RunPluginRequest, python: Interpreter) -> list[str]:
    """Return the plugin's command line."""
    folder, arguments = request.info.program_directory, list(request.args)
    if request.kind == ANALYZER:
        # Unbuffered: the engine waits for the line with the port.
        return [str(python.path), "-u", "-m", "pulumi.policy", *arguments, folder]
    if (Path(folder) / "__main__.py").is_file():
        return [str(python.path), folder, *arguments]
    return [str(python.path), "-m", "pulumi.run.plugin", _project(Path(folder)), *arguments]


def _project(folder: Path) -> str:
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        if "build-system" in project:
            return str(project["project"]["name"])
    except FileNotFoundError:
        pass
    except (ValueError, KeyError) as error:
        raise BadOption(f"{folder / 'pyproject.toml'} names no project: {error}") from error
    raise BadOption(
        f"the plugin in {folder} cannot be run: it has neither a __main__.py nor a pyproject.toml of a package"
    )


async def run(
    request: language_pb2.RunPluginRequest, python: Interpreter, hosted: Hosted
) -> AsyncGenerator[language_pb2.RunPluginResponse, None]:
    """Start the plugin and yield its output, then its exit code if it failed."""
    news: asyncio.Queue[language_pb2.RunPluginResponse | None] = asyncio.Queue()
    variables = dict(entry.split("=", 1) for entry in request.env if "=" in entry)
    environment = python.environment(variables or None)

    async def stream_plugin() -> None:
        try:
            if request.kind == ANALYZER:
                await _policy_pack(command(request, python), environment, request, hosted, news)
            else:
                process = await hosted.start(command(request, python), environment, request.pwd, captured=True)
                await _stream(process, hosted, news)
        finally:
            news.put_nowait(None)

    task = asyncio.create_task(stream_plugin())
    try:
        while (item := await news.get()) is not None:
            yield item
        await task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _policy_pack(
    start: list[str],
    environment: Mapping[str, str],
    request: language_pb2.RunPluginRequest,
    hosted: Hosted,
    news: asyncio.Queue[language_pb2.RunPluginResponse | None],
) -> None:
    proxy = PolicyProxy()
    try:
        port = await proxy.start()
        news.put_nowait(language_pb2.RunPluginResponse(stdout=f"{port}\n".encode()))
        variables = await proxy.environment()
        # A pack runs in its own folder, unlike every other plugin: its rules read files beside them.
        folder = request.info.program_directory
        process = await hosted.start(start, {**environment, **variables}, folder, captured=True)

        async def attach(first: bytes) -> None:
            try:
                await proxy.attach(int(first))
            except ValueError:
                reason = f"it printed {first!r} for a port" if first else "it ended at once"
                proxy.fail(f"{reason}; its messages say why")

        await _stream(process, hosted, news, attach)
    finally:
        await proxy.stop()


async def _stream(
    process: asyncio.subprocess.Process,
    hosted: Hosted,
    news: asyncio.Queue[language_pb2.RunPluginResponse | None],
    first: Callable[[bytes], Awaitable[None]] | None = None,
) -> None:
    if process.stdout is None or process.stderr is None:
        raise ValueError("only a captured process can be streamed")

    async def outputs(stream: asyncio.StreamReader) -> None:
        if first is not None:
            await first(await stream.readline())
        while chunk := await stream.read(_CHUNK):
            news.put_nowait(language_pb2.RunPluginResponse(stdout=chunk))

    async def complaints(stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(_CHUNK):
            news.put_nowait(language_pb2.RunPluginResponse(stderr=chunk))

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(outputs(process.stdout))
            group.create_task(complaints(process.stderr))
        code = await process.wait()
    finally:
        hosted.stop(process)
    if code != 0:
        news.put_nowait(language_pb2.RunPluginResponse(exitcode=code))
