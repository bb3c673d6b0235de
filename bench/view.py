"""Fill the view of a replica with 100,000 workspaces: memory, the longest pause meanwhile, and the time of a page.

The API server is simulated: pages of claims as a real one sends them. Pauses are in processor time, so that other work
of the machine does not count. The baseline parses and reads each page in one go, as long as other requests would wait.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable
from typing import Any

import httpx2
import psutil

from agentenv.core.workspaces.claims import claim
from agentenv.core.workspaces.workspace import CREATED_BY, KEY, LAST_ACTIVE, SUSPENDED_BECAUSE, Filter
from agentenv.service.kube.client import CLAIMS, KubeClient
from agentenv.service.kube.informer import Informer
from agentenv.service.kube.view import ClusterView
from bench.timing import percentile

WORKSPACES, PAGES = 100_000, 200
# The page of the baseline.
WHOLE = 500
_NUMBER = "77777777"
_AT = "2026-11-19T12:00:00Z"


def measure(repeat: int) -> dict[str, Any]:
    """Fill a view `repeat` times, and return the best figures beside those of the baseline."""
    rows = [asyncio.run(_fill()) for _ in range(repeat)]
    whole = min(_read_whole() for _ in range(repeat))
    longest = min(row["longest_pause_ms"] for row in rows)
    return {
        "workspaces": WORKSPACES,
        "memory_mb": min(row["memory_mb"] for row in rows),
        "list_p95_ms": min(row["list_p95_ms"] for row in rows),
        "longest_pause_ms": longest,
        "baseline_pause_ms": whole,
        "ratio": round(longest / whole, 2),
    }


async def _fill() -> dict[str, float]:
    view, spent = ClusterView(), [0.0]

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.params.get("watch"):
            await asyncio.Event().wait()
        began = time.process_time()
        page = _page(int(request.url.params.get("continue") or 0), int(request.url.params["limit"]))
        spent[0] += time.process_time() - began
        return httpx2.Response(200, content=page)

    def now() -> float:
        return time.process_time() - spent[0]

    memory = psutil.Process().memory_info().rss
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer), base_url="http://kubernetes") as client:
        informer = Informer(KubeClient(client), CLAIMS, view.put_claim, view.drop_claim, on_list=view.set_listing)
        task = asyncio.create_task(informer.run())
        longest = await _longest_pause(informer.listed.is_set, now)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    grown = psutil.Process().memory_info().rss - memory
    pages = _pages(view)
    gc.unfreeze()
    return {
        "memory_mb": round(grown / 1e6, 1),
        "list_p95_ms": round(percentile(pages, 95), 1),
        "longest_pause_ms": round(longest * 1000, 1),
    }


async def _longest_pause(is_over: Callable[[], bool], now: Callable[[], float]) -> float:
    longest, last = 0.0, now()
    while not is_over():
        await asyncio.sleep(0)
        longest, last = max(longest, (current := now()) - last), current
    return longest


def _pages(view: ClusterView) -> list[float]:
    milliseconds: list[float] = []
    after: str | None = None
    for _ in range(PAGES):
        began = time.process_time()
        page = view.list(Filter(), 100, after)
        milliseconds.append((time.process_time() - began) * 1000)
        after = page.after
    return milliseconds


def _read_whole() -> float:
    """Return the milliseconds in which a page is parsed and read in one go; the longest of many."""
    view, longest = ClusterView(), 0.0
    for first in range(0, 20 * WHOLE, WHOLE):
        page = _page(first, WHOLE)
        began = time.process_time()
        for document in json.loads(page)["items"]:
            view.put_claim(document)
        longest = max(longest, time.process_time() - began)
    return round(longest * 1000, 1)


def _page(first: int, size: int) -> bytes:
    last = min(first + size, WORKSPACES)
    items = ",".join(_CLAIM.replace(_NUMBER, f"{number:08d}") for number in range(first, last))
    more = str(last) if last < WORKSPACES else ""
    return f'{{"metadata":{{"resourceVersion":"1","continue":"{more}"}},"items":[{items}]}}'.encode()


def _claim() -> str:
    """Return a suspended claim as the API server sends it, with a number to replace."""
    name, owner = f"w-a0{'a' * 18}{_NUMBER}", f"u-{'b' * 20}{_NUMBER}"
    document = claim("standard", "standard-1234567890", name, owner=owner, workspace=name)
    fields = {f"f:field-{number}": {} for number in range(12)}
    managers = [{"manager": manager, "fieldsV1": {"f:metadata": fields, "f:spec": fields}} for manager in ("a", "b")]
    annotations = {KEY: "k" * 32, CREATED_BY: owner, LAST_ACTIVE: _AT, SUSPENDED_BECAUSE: "idle"}
    identity = {"uid": f"{_NUMBER}-1111-2222-3333-444444444444", "resourceVersion": _NUMBER, "creationTimestamp": _AT}
    document["metadata"] |= {**identity, "annotations": annotations, "managedFields": managers}
    asleep = {"type": "Ready", "status": "False", "reason": "SandboxSuspended", "lastTransitionTime": _AT}
    sandbox = {"name": f"standard-1234567890-{_NUMBER}", "podIPs": ["10.40.1.2"]}
    return json.dumps({**document, "status": {"sandbox": sandbox, "conditions": [asleep]}})


_CLAIM = _claim()
