"""The client with no option but a domain: TLS, HTTP/2 and a host for each sandbox, as behind the load balancer."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agentenv.dev.gateway import DOMAIN
from tests.live.service.e2b.conftest import SECONDS
from tests.live.service.e2b.tls_front import certificates, front

PROGRAM = """
import asyncio, sys
from e2b import AsyncSandbox, Sandbox
options = {"proxy": sys.argv[1]}
with Sandbox.create(timeout=120, envs={"A": "b"}, **options) as sandbox:
    assert sandbox.envd_api_url.startswith(f"https://49983-{sandbox.sandbox_id}."), sandbox.envd_api_url
    assert sandbox.commands.run("echo $A").stdout == "b\\n"
    sandbox.files.write("large", b"x" * 5_000_000)
    assert len(sandbox.files.read("large", format="bytes")) == 5_000_000
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.stream_input(handle.pid, ["one ", b"two"])
    handle.close_stdin()
    assert handle.wait().stdout == "one two"
    async def many():
        other = await AsyncSandbox.connect(sandbox.sandbox_id, **options)
        results = await asyncio.gather(*(other.commands.run(f"echo {n}") for n in range(20)))
        assert [each.stdout for each in results] == [f"{n}\\n" for n in range(20)]
    asyncio.run(many())
assert not sandbox.is_running()
print("works")
"""


@pytest.mark.parametrize("version", ["2", "1.1"])
def test_client_needs_only_the_domain(gateway: dict[str, Any], tmp_path: Path, version: str) -> None:
    trusted, presented = certificates(tmp_path, DOMAIN)
    environment = {name: value for name, value in os.environ.items() if name != "E2B_SANDBOX_URL"}
    environment |= {"E2B_API_URL": f"https://api.{DOMAIN}/e2b", "E2B_DOMAIN": DOMAIN, "E2B_HTTP_VERSION": version}

    async def run() -> subprocess.CompletedProcess[str]:
        protocols = ["h2", "http/1.1"] if version == "2" else ["http/1.1"]
        async with front(presented, urlsplit(gateway["proxy"]).port or 0, protocols) as port:
            return await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", PROGRAM, f"http://127.0.0.1:{port}"],
                env={**environment, "SSL_CERT_FILE": str(trusted)},
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )

    ended = asyncio.run(run())
    assert ended.stdout == "works\n", ended.stderr
