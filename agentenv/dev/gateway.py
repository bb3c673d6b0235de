"""The gateway of this machine: the real Envoy and the service's own authorization, on loopback."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.core.gateway.envoy import READY_PATH, EnvoyPlan, bootstrap
from agentenv.local import processes
from agentenv.local.sandboxes.bundle import CannotStart
from agentenv.service.gateway.sealing import ENTRY_KEY, SecretsCache, new_secrets, to_text
from agentenv.service.http.dependencies import GatewayAddresses

if TYPE_CHECKING:
    from agentenv.local.run_folders import Run

HOST = "127.0.0.1"
# Browsers resolve every name below `localhost` to this machine; other programs may not, so the service and the sandbox
# host have a host that needs no name.
DOMAIN, SERVICE_HOST = "os.localhost", "localhost"
SANDBOX_ALIASES = (HOST,)
_START_SECONDS = 20.0
_POLL_SECONDS = 0.02


def addresses(port: int) -> GatewayAddresses:
    """Return where workspaces are reached."""
    return GatewayAddresses(f"http://{HOST}:{port}", f"http://{{port}}-{{workspace}}.{DOMAIN}:{port}")


def console(port: int) -> str:
    """Return the address of the console, whose name browsers resolve by themselves."""
    return f"http://console.{DOMAIN}:{port}/"


def secrets_cache(file: Path, now: datetime) -> SecretsCache:
    """Return the gateway's secrets, created at the first start in a file that only its owner reads."""
    if not file.exists():
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as created:
            created.write(to_text(new_secrets(now)))

    async def read() -> Mapping[str, Any]:
        return {"data": {ENTRY_KEY: base64.b64encode(file.read_bytes()).decode()}}

    return SecretsCache(read)


def envoy_plan(run: Run, *, port: int, status_port: int, service_port: int, authorizer_port: int) -> EnvoyPlan:
    """Return what Envoy's configuration depends on, on this machine."""
    return EnvoyPlan(
        domain=DOMAIN,
        workspace_domain=DOMAIN,
        service_port=service_port,
        service_host=HOST,
        authorizer_host=HOST,
        authorizer_port=authorizer_port,
        address=HOST,
        port=port,
        status_port=status_port,
        admin_socket=str(run.folder / "envoy.sock"),
        proxy_protocol=False,
        scheme="http",
        service_aliases=(SERVICE_HOST,),
        sandbox_aliases=SANDBOX_ALIASES,
    )


@contextlib.asynccontextmanager
async def running_envoy(run: Run, plan: EnvoyPlan) -> AsyncGenerator[subprocess.Popen[bytes]]:
    """Run Envoy until the end of the context; yield it once it routes."""
    file, log = run.folder / "envoy.json", run.logs / "envoy.log"
    file.write_text(json.dumps(bootstrap(plan)), encoding="utf-8")
    program = Path(sys.executable).with_name("envoy")
    options = ["--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"]
    environment = {name: os.environ[name] for name in ("PATH", processes.MARK) if name in os.environ}
    command = [str(program), "-c", str(file), *options]
    process = processes.start(command, environment=environment, log=log, folder=run.folder)
    try:
        await _until_ready(process, plan.status_port, log)
        yield process
    finally:
        await asyncio.to_thread(processes.stop, process, 5.0)


async def _until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until Envoy answers its probe; raise `CannotStart` with the end of its log if it does not."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_START_SECONDS):
            while process.poll() is None:
                with contextlib.suppress(OSError):
                    if await _is_ready(port):
                        return
                await asyncio.sleep(_POLL_SECONDS)
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise CannotStart(f"Envoy does not start: {lines[-1] if lines else 'it printed no error'}")


async def _is_ready(port: int) -> bool:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(f"GET {READY_PATH} HTTP/1.1\r\nHost: status\r\nConnection: close\r\n\r\n".encode())
        return (await reader.read(64)).startswith(b"HTTP/1.1 200")
    finally:
        writer.close()
