"""One Kubernetes client at work, in a process of its own: `python -m bench.client_side NAME KUBECONFIG COUNT`.

It prints its figures as JSON. Each makes a claim and reads it, which is what the service does most. Run by
`bench/clients.py` in an environment that has all of them; none is imported before the clock runs.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.memory import peak_kib

if TYPE_CHECKING:
    from agentenv.service.kube.client import KubeClient

AT_ONCE = 16
API, VERSION, PLURAL = "extensions.agents.x-k8s.io", "v1beta1", "sandboxclaims"
Pair = Callable[[], Awaitable[None]]


def claim() -> dict[str, Any]:
    """A claim that nobody fills."""
    return {
        "apiVersion": f"{API}/{VERSION}",
        "kind": "SandboxClaim",
        "metadata": {"name": f"bench-{secrets.token_hex(6)}", "namespace": "default"},
        "spec": {"warmPoolRef": {"name": "none"}},
    }


async def wire(kubeconfig: str) -> Pair:
    """The service's own verbs over its own connection: aiohttp."""
    from agentenv.service.kube.client import KubeClient

    return _by(KubeClient.from_kubeconfig(Path(kubeconfig)))


async def httpx(kubeconfig: str) -> Pair:
    """The same verbs over lightkube's connection: httpx2."""
    from httpx2 import Timeout
    from lightkube import KubeConfig
    from lightkube.config.client_adapter import AsyncClient, ConnectionParams

    from agentenv.service.kube.client import KubeClient

    config: Any = KubeConfig.from_file(kubeconfig).get()
    connected: Any = AsyncClient(config, ConnectionParams(timeout=Timeout(10.0)))
    return _by(KubeClient(connected))


def _by(verbs: KubeClient) -> Pair:
    from agentenv.service.kube.client import CLAIMS

    async def pair() -> None:
        made = claim()
        await verbs.create(CLAIMS, made)
        await verbs.find(CLAIMS, made["metadata"]["name"], "default")

    return pair


async def lightkube(kubeconfig: str) -> Pair:
    """lightkube's own calls."""
    from lightkube import AsyncClient, KubeConfig
    from lightkube.generic_resource import create_namespaced_resource

    kind: Any = create_namespaced_resource(API, VERSION, "SandboxClaim", PLURAL)
    client: Any = AsyncClient(KubeConfig.from_file(kubeconfig))

    async def pair() -> None:
        made = claim()
        await client.create(kind(made), namespace="default")
        await client.get(kind, made["metadata"]["name"], namespace="default")

    return pair


async def agent_sandbox(_kubeconfig: str) -> Pair:
    """The official client of sandboxes: kubernetes_asyncio inside."""
    helper: Any = importlib.import_module("k8s_agent_sandbox.async_k8s_helper").AsyncK8sHelper()

    async def pair() -> None:
        name = claim()["metadata"]["name"]
        await helper.create_sandbox_claim(name, "none", "default")
        await helper.get_sandbox_claim(name, "default")

    return pair


async def kr8s(kubeconfig: str) -> Pair:
    """kr8s, whose objects call the server by themselves."""
    library: Any = importlib.import_module("kr8s.asyncio")
    api: Any = await library.api(kubeconfig=kubeconfig)
    kind: Any = importlib.import_module("kr8s.asyncio.objects").new_class(
        "SandboxClaim", f"{API}/{VERSION}", namespaced=True, plural=PLURAL
    )

    async def pair() -> None:
        made = await kind(claim(), api=api)
        await made.create()
        await made.refresh()

    return pair


CLIENTS: dict[str, Callable[[str], Awaitable[Pair]]] = {
    "wire": wire,
    "httpx": httpx,
    "lightkube": lightkube,
    "agent-sandbox": agent_sandbox,
    "kr8s": kr8s,
}


async def measured(name: str, kubeconfig: str, count: int) -> dict[str, float]:
    """Its figures."""
    before = time.monotonic()
    pair = await CLIENTS[name](kubeconfig)
    ready = time.monotonic() - before
    for _ in range(5):
        await pair()
    times: list[float] = []
    worked = time.process_time()
    for _ in range(count):
        began = time.monotonic()
        await pair()
        times.append(time.monotonic() - began)
    worked = time.process_time() - worked
    began = time.monotonic()
    for _ in range(count // AT_ONCE):
        await asyncio.gather(*(pair() for _ in range(AT_ONCE)))
    together = time.monotonic() - began
    return {
        "pair_ms": round(sorted(times)[len(times) // 2] * 1000, 2),
        "cpu_ms": round(worked / count * 1000, 2),
        "at_once_per_second": round(count // AT_ONCE * AT_ONCE / together),
        "import_s": round(ready, 2),
        "memory_mb": round(peak_kib() / 1024),
    }


if __name__ == "__main__":
    _, asked, config, number = sys.argv
    os.environ["KUBECONFIG"] = config
    # Connections are the process's, and go with it.
    sys.stdout.write(json.dumps(asyncio.run(measured(asked, config, int(number)))) + "\n")
    sys.stdout.flush()
    os._exit(0)
