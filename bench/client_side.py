"""Measure one Kubernetes client in its own process: `python -m bench.client_side NAME KUBECONFIG COUNT`.

It creates a claim and reads it, the most frequent calls of the service, and prints its figures as JSON. `clients.py`
runs it in an environment with all clients. A client is imported only after the clock has started.
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

from bench.timing import peak_kib

if TYPE_CHECKING:
    from agentenv.service.kube.client import KubeClient

CONCURRENT = 16
API, VERSION, PLURAL = "extensions.agents.x-k8s.io", "v1beta1", "sandboxclaims"
Pair = Callable[[], Awaitable[None]]


def claim() -> dict[str, Any]:
    """Return a claim that no controller handles."""
    return {
        "apiVersion": f"{API}/{VERSION}",
        "kind": "SandboxClaim",
        "metadata": {"name": f"bench-{secrets.token_hex(6)}", "namespace": "default"},
        "spec": {"warmPoolRef": {"name": "none"}},
    }


async def wire(kubeconfig: str) -> Pair:
    """Use the service's client with its own connection: aiohttp."""
    from agentenv.service.kube.client import KubeClient

    return _by(KubeClient.from_kubeconfig(Path(kubeconfig)))


async def httpx(kubeconfig: str) -> Pair:
    """Use the service's client with lightkube's connection: httpx2."""
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
        document = claim()
        await verbs.create(CLAIMS, document)
        await verbs.find(CLAIMS, document["metadata"]["name"], "default")

    return pair


async def lightkube(kubeconfig: str) -> Pair:
    """Use lightkube's client."""
    from lightkube import AsyncClient, KubeConfig
    from lightkube.generic_resource import create_namespaced_resource

    kind: Any = create_namespaced_resource(API, VERSION, "SandboxClaim", PLURAL)
    client: Any = AsyncClient(KubeConfig.from_file(kubeconfig))

    async def pair() -> None:
        document = claim()
        await client.create(kind(document), namespace="default")
        await client.get(kind, document["metadata"]["name"], namespace="default")

    return pair


async def agent_sandbox(_kubeconfig: str) -> Pair:
    """Use the official client of agent-sandbox, which uses kubernetes_asyncio."""
    helper: Any = importlib.import_module("k8s_agent_sandbox.async_k8s_helper").AsyncK8sHelper()

    async def pair() -> None:
        name = claim()["metadata"]["name"]
        await helper.create_sandbox_claim(name, "none", "default")
        await helper.get_sandbox_claim(name, "default")

    return pair


async def kr8s(kubeconfig: str) -> Pair:
    """Use kr8s, whose objects have the API calls as methods."""
    library: Any = importlib.import_module("kr8s.asyncio")
    api: Any = await library.api(kubeconfig=kubeconfig)
    kind: Any = importlib.import_module("kr8s.asyncio.objects").new_class(
        "SandboxClaim", f"{API}/{VERSION}", namespaced=True, plural=PLURAL
    )

    async def pair() -> None:
        document = await kind(claim(), api=api)
        await document.create()
        await document.refresh()

    return pair


CLIENTS: dict[str, Callable[[str], Awaitable[Pair]]] = {
    "wire": wire,
    "httpx": httpx,
    "lightkube": lightkube,
    "agent-sandbox": agent_sandbox,
    "kr8s": kr8s,
}


async def measure(name: str, kubeconfig: str, count: int) -> dict[str, float]:
    """Return the figures of a client."""
    before = time.monotonic()
    pair = await CLIENTS[name](kubeconfig)
    ready = time.monotonic() - before
    for _ in range(5):
        await pair()
    times: list[float] = []
    cpu_seconds = time.process_time()
    for _ in range(count):
        began = time.monotonic()
        await pair()
        times.append(time.monotonic() - began)
    cpu_seconds = time.process_time() - cpu_seconds
    began = time.monotonic()
    for _ in range(count // CONCURRENT):
        await asyncio.gather(*(pair() for _ in range(CONCURRENT)))
    together = time.monotonic() - began
    return {
        "pair_ms": round(sorted(times)[len(times) // 2] * 1000, 2),
        "cpu_ms": round(cpu_seconds / count * 1000, 2),
        "at_once_per_second": round(count // CONCURRENT * CONCURRENT / together),
        "import_s": round(ready, 2),
        "memory_mb": round(peak_kib() / 1024),
    }


if __name__ == "__main__":
    _, name, config, number = sys.argv
    os.environ["KUBECONFIG"] = config
    # The connections end with the process.
    sys.stdout.write(json.dumps(asyncio.run(measure(name, config, int(number)))) + "\n")
    sys.stdout.flush()
    os._exit(0)
