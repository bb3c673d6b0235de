"""Who else sees what workspaces do: Prometheus knows of traffic, and of work that nobody watches.

Asked only about those that would go to sleep otherwise, and about no longer than that depends on. Of one whose numbers
Prometheus has not, it cannot tell. A source that failed is not asked again in the same pass: who waits for it for ten
seconds does so once.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import re
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from agentenv.core.lifecycle.idle import Activity
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.loops.context import ActivitySource

# Below these it breathes: keep-alives, and what an idle shell does.
NETWORK, QUIET_BYTES = "sandbox:owner_network_bytes:rate1m", 512.0
CPU, QUIET_CPU = "sandbox:owner_cpu_seconds:rate1m", 0.05
_UID = re.compile(r"[0-9a-zA-Z-]{1,64}")
_LONGEST = timedelta(hours=24)
_SHORTEST = timedelta(minutes=3)
_TIMEOUT = 10.0
_LOG = logging.getLogger(__name__)

Query = Callable[[str], Sequence[tuple[Mapping[str, str], float]]]


class ActivitySources:
    """All sources, as one pass asks them."""

    def __init__(self, sources: Sequence[ActivitySource], limits: Mapping[str, Limits], now: datetime) -> None:
        self._sources, self._limits, self._now = sources, limits, now
        self._failed: set[str] = set()

    async def seen(self, workspaces: Sequence[Workspace]) -> dict[str, list[Activity]]:
        """What each source knows of each workspace, by id; one that fails does not know."""
        observations: dict[str, list[Activity]] = {workspace.id: [] for workspace in workspaces}
        for source in self._sources if workspaces else ():
            observed: Mapping[str, Activity] = {}
            if source.name not in self._failed:
                try:
                    observed = await source.seen(workspaces, self._limits, self._now)
                except Exception as failure:  # noqa: BLE001 - whatever it is, it has not seen them
                    self._failed.add(source.name)
                    facts = {"source": source.name, "why": f"{type(failure).__name__}: {failure}"}
                    _LOG.warning("who sleeps cannot be told: a source fails", extra={"facts": facts})
            for workspace in workspaces:
                observations[workspace.id].append(observed.get(workspace.id, Activity(source.name, known=False)))
        return observations


class Prometheus:
    """The recording rules of the cluster, a sample a minute."""

    name = "prometheus"

    def __init__(self, address: str, query: Query | None = None) -> None:
        self._query: Query = query or functools.partial(query_prometheus, address)

    async def seen(
        self, workspaces: Sequence[Workspace], limits: Mapping[str, Limits], now: datetime
    ) -> Mapping[str, Activity]:
        """Of each, whether there was traffic or work since it would have to have been quiet."""
        observations: dict[str, Activity] = {}
        for window, group in _by_window(workspaces, limits).items():
            uids = {workspace.claim_uid: workspace for workspace in group if _UID.fullmatch(workspace.claim_uid)}
            if not uids:
                continue
            highest = {
                rule: await asyncio.to_thread(self._highest, rule, sorted(uids), window) for rule in (NETWORK, CPU)
            }
            for uid, workspace in uids.items():
                if uid not in highest[NETWORK] or uid not in highest[CPU]:
                    continue
                busy = highest[NETWORK][uid] > QUIET_BYTES or highest[CPU][uid] > QUIET_CPU
                observations[workspace.id] = Activity(self.name, now if busy else None)
        return observations

    def _highest(self, rule: str, uids: Sequence[str], window: int) -> dict[str, float]:
        chosen = "|".join(uids)
        text = f'max by (claim_uid) (max_over_time({rule}{{claim_uid=~"{chosen}"}}[{window}s]))'
        return {labels["claim_uid"]: value for labels, value in self._query(text) if "claim_uid" in labels}


def _by_window(workspaces: Sequence[Workspace], limits: Mapping[str, Limits]) -> dict[int, list[Workspace]]:
    """Workspaces by how long each has to have been quiet, in seconds."""
    groups: dict[int, list[Workspace]] = {}
    for workspace in workspaces:
        after = (
            workspace.idle_after
            if workspace.idle_after is not None
            else limits.get(workspace.class_name, Limits()).suspend_after
        )
        window = min(max(after or _SHORTEST, _SHORTEST), _LONGEST)
        groups.setdefault(int(window.total_seconds()), []).append(workspace)
    return groups


def query_prometheus(address: str, text: str) -> list[tuple[Mapping[str, str], float]]:
    """What a Prometheus answers to a query of now."""
    body = urllib.parse.urlencode({"query": text}).encode()
    request = urllib.request.Request(f"{address.rstrip('/')}/api/v1/query", body)  # noqa: S310 - of our configuration
    # Whatever a proxy around this process says: it is in the cluster.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_TIMEOUT) as response:
        document = cast("dict[str, Any]", json.load(response))
    if document.get("status") != "success":
        raise ValueError(f"Prometheus: {document.get('error')}")
    rows: list[dict[str, Any]] = document["data"]["result"]
    return [(row["metric"], float(row["value"][1])) for row in rows]
