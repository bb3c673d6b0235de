"""The stand-in for the engine's Python language host, used only where the official one is not installed.

`python -m agentenv.rehearsal.tools.python_host.language_host [--use-executor FILE] [ENGINE]` prints the port it listens
on, and runs programs, policy packs and components for the engine until it is told to stop. What it does not do
(generate code, install requirements) it refuses in words. It serves from one event loop, so that calls that wait for
each other, as those to a policy pack do, never wait for a free thread.
"""

# ruff: noqa: N802 - the protocol names the methods

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    import grpc.aio

    from agentenv.rehearsal.tools.python_host.interpreter import Interpreter
    from agentenv.rehearsal.tools.python_host.protocol import language_pb2, plugin_pb2

_EXECUTOR = "pulumi-language-python-exec"
_HEALTH = "/grpc.health.v1.Health/Check"
_HEALTH_SECONDS = 60.0
_REFUSED = {
    "GenerateProgram": "generate programs",
    "GenerateProject": "generate projects",
    "GeneratePackage": "generate SDKs",
    "Pack": "pack SDKs",
    "Link": "link SDKs",
    "Template": "prepare templates",
    "GetRequiredPlugins": "list plugins the old way",
}


class LanguageHost:
    """Answers the engine's calls; the names of the methods are the protocol's."""

    def __init__(self, executor: Path, engine: str, tracing: str = "") -> None:
        from agentenv.rehearsal.tools.python_host import hosted_processes, protocol

        self._executor, self._engine, self._tracing = executor, engine, tracing
        self._hosted = hosted_processes.Hosted()
        self._messages = protocol.language_pb2
        self._plugin_messages = protocol.plugin_pb2
        self._leaving = asyncio.Event()
        self._orphaned = False
        self._watch: asyncio.Task[None] | None = None
        for name, what in _REFUSED.items():
            setattr(self, name, _refuse(what))

    async def until_told(self) -> None:
        """Wait until it is time to leave, then end what runs."""
        self._watch_engine()
        await self._leaving.wait()
        await self._hosted.stop_all()
        if self._orphaned and os.getpgrp() == os.getpid():
            # An engine ends the whole group of a plugin; now nobody else will end what programs have started.
            os.killpg(0, signal.SIGTERM)

    def leave(self) -> None:
        """Stop serving."""
        self._leaving.set()

    def lost_engine(self) -> None:
        """Stop serving, since there is no engine to serve."""
        self._orphaned = True
        self.leave()

    async def Handshake(
        self, request: language_pb2.LanguageHandshakeRequest, _context: grpc.aio.ServicerContext[Any, Any]
    ) -> language_pb2.LanguageHandshakeResponse:
        """Learn where the engine is, for engines that attach to a host that runs already."""
        self._engine = request.engine_address
        self._watch_engine()
        return self._messages.LanguageHandshakeResponse()

    async def GetPluginInfo(
        self, _request: object, _context: grpc.aio.ServicerContext[Any, Any]
    ) -> plugin_pb2.PluginInfo:
        """Our version: that of the engine whose host we stand in for."""
        from agentenv.rehearsal.tools import catalog

        return self._plugin_messages.PluginInfo(version=catalog.recipe("language-python-exec").version)

    async def GetRequiredPackages(
        self, request: language_pb2.GetRequiredPackagesRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> language_pb2.GetRequiredPackagesResponse:
        """Name the plugins that the program's packages need."""
        from agentenv.rehearsal.tools.python_host import required_plugins

        needed = await required_plugins.list_dependencies(await self._python(request.info, context))
        return self._messages.GetRequiredPackagesResponse(packages=needed)

    async def GetProgramDependencies(
        self, request: language_pb2.GetProgramDependenciesRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> language_pb2.GetProgramDependenciesResponse:
        """List the packages that the program's Python sees."""
        from agentenv.rehearsal.tools.python_host import required_plugins

        packages = await required_plugins.list_packages(await self._python(request.info, context))
        return self._messages.GetProgramDependenciesResponse(
            dependencies=[self._messages.DependencyInfo(name=row["name"], version=row["version"]) for row in packages]
        )

    async def About(
        self, request: language_pb2.AboutRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> language_pb2.AboutResponse:
        """Tell which Python runs the program."""
        python = await self._python(request.info, context)
        process = await self._hosted.start(
            [str(python.path), "-c", "import platform; print(platform.python_version())"],
            python.environment(),
            captured=True,
        )
        printed, _ = await process.communicate()
        self._hosted.stop(process)
        return self._messages.AboutResponse(
            executable=str(python.path),
            version=printed.decode(errors="replace").strip(),
            metadata={"toolchain": python.toolchain, "typechecker": python.typechecker or "none", "host": "stand-in"},
        )

    async def RuntimeOptionsPrompts(
        self, _request: object, _context: grpc.aio.ServicerContext[Any, Any]
    ) -> language_pb2.RuntimeOptionsResponse:
        """Ask for nothing: what a project file leaves out has a default here."""
        return self._messages.RuntimeOptionsResponse()

    async def InstallDependencies(
        self, request: language_pb2.InstallDependenciesRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[language_pb2.InstallDependenciesResponse]:
        """Install nothing, and say so: what is rehearsed is the environment as it stands."""
        python = await self._python(request.info, context)
        line = f"The stand-in language host installs nothing; {python.path} is used as it is.\n"
        yield self._messages.InstallDependenciesResponse(stdout=line.encode())

    async def Run(
        self, request: language_pb2.RunRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> language_pb2.RunResponse:
        """Run a program to its end."""
        from agentenv.rehearsal.tools.python_host import run_program

        python = await self._python(request.info, context)
        return await run_program.run(
            request, python, self._hosted, executor=self._executor, engine=self._engine, tracing=self._tracing
        )

    async def RunPlugin(
        self, request: language_pb2.RunPluginRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[language_pb2.RunPluginResponse]:
        """Run a policy pack or a plugin, and pass on what it prints."""
        import grpc

        from agentenv.rehearsal.tools.python_host import interpreter, run_plugin

        choose = interpreter.choose_for_pack if request.kind == run_plugin.ANALYZER else interpreter.choose
        python = await self._python(request.info, context, choose)
        try:
            async with contextlib.aclosing(run_plugin.run(request, python, self._hosted)) as news:
                async for item in news:
                    yield item
        except interpreter.BadOption as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))

    async def Cancel(self, request: object, _context: grpc.aio.ServicerContext[Any, Any]) -> object:
        """End what runs; the engine gives up."""
        await self._hosted.stop_all()
        return request

    async def _python(
        self,
        info: language_pb2.ProgramInfo,
        context: grpc.aio.ServicerContext[Any, Any],
        choose: Callable[[Mapping[str, object], Path, Path], Interpreter] | None = None,
    ) -> Interpreter:
        import grpc
        from google.protobuf import json_format

        from agentenv.rehearsal.tools.python_host import interpreter

        try:
            options = json_format.MessageToDict(info.options)
            return (choose or interpreter.choose)(options, Path(info.root_directory), Path(info.program_directory))
        except interpreter.BadOption as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        raise AssertionError("abort raises")

    def _watch_engine(self) -> None:
        if self._engine and self._watch is None:
            self._watch = asyncio.create_task(self._look_after_engine())

    async def _look_after_engine(self) -> None:
        """Leave when the engine does not answer any more; an engine without such a service answers too."""
        import grpc.aio

        async with grpc.aio.insecure_channel(self._engine) as channel:
            while True:
                await asyncio.sleep(_HEALTH_SECONDS)
                try:
                    await channel.unary_unary(_HEALTH)(b"", timeout=_HEALTH_SECONDS)
                except grpc.aio.AioRpcError as error:
                    if error.code() == grpc.StatusCode.UNAVAILABLE:
                        self.lost_engine()
                        return


def _refuse(what: str) -> Callable[[object, grpc.aio.ServicerContext[Any, Any]], Awaitable[None]]:
    async def refuse(_request: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        import grpc

        await context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            f"the stand-in language host does not {what}: install the official pulumi-language-python for that",
        )

    return refuse


async def serve(executor: Path, engine: str, tracing: str) -> None:
    """Serve until told to stop, or until the engine is gone."""
    import grpc.aio

    from agentenv.rehearsal.tools.python_host import protocol

    host = LanguageHost(executor, engine, tracing)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, host.leave)
    server = grpc.aio.server(options=protocol.CHANNEL_OPTIONS)
    protocol.language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)  # pyright: ignore[reportArgumentType] - the methods are what counts
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    if engine and stat.S_ISFIFO(os.fstat(0).st_mode):
        # The engine holds the other end and never writes: when it closes, the engine is gone, killed or not.
        loop.add_reader(0, _read_end, loop, host)
    await host.until_told()
    await server.stop(grace=0.2)


def _read_end(loop: asyncio.AbstractEventLoop, host: LanguageHost) -> None:
    if not os.read(0, 4096):
        loop.remove_reader(0)
        host.lost_engine()


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line as the engine writes it, and serve."""
    # Until the loop takes signals over there is nothing to end but ourselves, and no reason for a traceback.
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    parser = argparse.ArgumentParser(prog="pulumi-language-python", description=__doc__, allow_abbrev=False)
    parser.add_argument("--use-executor", type=Path, help="the SDK's pulumi-language-python-exec")
    parser.add_argument("--tracing", default="", help="where to send traces")
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument("engine", nargs="?", default="", help="the engine's address")
    # The engine adds flags for its own logging.
    options, _ = parser.parse_known_args(arguments)
    if options.version:
        from agentenv.rehearsal.tools import catalog

        sys.stdout.write(f"{catalog.recipe('language-python-exec').version}\n")
        return 0
    executor = options.use_executor or Path(sys.argv[0]).with_name(_EXECUTOR)
    if not executor.is_file():
        sys.stderr.write(f"pulumi-language-python: there is no {executor}; name it with --use-executor\n")
        return 1
    asyncio.run(serve(executor.absolute(), options.engine, options.tracing))
    return 0


if __name__ == "__main__":
    sys.exit(main())
