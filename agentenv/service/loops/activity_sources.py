"""Query activity of workspaces that the service does not see itself, such as network traffic and CPU work.

Only workspaces that would otherwise be suspended are queried, and only for their idle period. Workspaces without
metrics in Prometheus have unknown activity. A source that failed is not queried again in the same pass, so that its
timeout of ten seconds is spent once.
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

# At most so much is idle: keep-alives, and the background work of an idle shell.
NETWORK, QUIET_BYTES = "sandbox:owner_network_bytes:rate1m", 512.0
CPU, QUIET_CPU = "sandbox:owner_cpu_seconds:rate1m", 0.05
_UID = re.compile(r"[0-9a-zA-Z-]{1,64}")
_LONGEST = timedelta(hours=24)
_SHORTEST = timedelta(minutes=3)
_TIMEOUT = 10.0
_LOG = logging.getLogger(__name__)

Query = Callable[[str], Sequence[tuple[Mapping[str, str], float]]]


class ActivitySources:
    """All activity sources, for one pass."""

    def __init__(self, sources: Sequence[ActivitySource], limits: Mapping[str, Limits], now: datetime) -> None:
        self._sources, self._limits, self._now = sources, limits, now
        self._failed: set[str] = set()

    async def seen(self, workspaces: Sequence[Workspace]) -> dict[str, list[Activity]]:
        """Return the activity of each workspace by id, one per source; it is unknown where the source fails.

        Once a source decides about a workspace, later ones are not queried about it.
        """
        observations: dict[str, list[Activity]] = {workspace.id: [] for workspace in workspaces}
        undecided = list(workspaces)
        for source in self._sources:
            if not undecided:
                break
            observed: Mapping[str, Activity] = {}
            if source.name not in self._failed:
                try:
                    observed = await source.seen(undecided, self._limits, self._now)
                except Exception as failure:  # noqa: BLE001 - after any failure the activity is unknown
                    self._failed.add(source.name)
                    facts = {"source": source.name, "why": f"{type(failure).__name__}: {failure}"}
                    _LOG.warning("idle workspaces are not suspended: an activity source fails", extra={"facts": facts})
            for workspace in undecided:
                observations[workspace.id].append(observed.get(workspace.id, Activity(source.name, known=False)))
            undecided = [workspace for workspace in undecided if not observations[workspace.id][-1].decisive]
        return observations


class Prometheus:
    """Activity by the recording rules of Prometheus, which have a sample per minute."""

    name = "prometheus"

    def __init__(self, address: str, query: Query | None = None) -> None:
        self._query: Query = query or functools.partial(query_prometheus, address)

    async def seen(
        self, workspaces: Sequence[Workspace], limits: Mapping[str, Limits], now: datetime
    ) -> Mapping[str, Activity]:
        """Return whether each workspace had traffic or work within its idle period, by id."""
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
    """Return the workspaces by their idle period in seconds."""
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
    """Return the result of an instant query to Prometheus."""
    body = urllib.parse.urlencode({"query": text}).encode()
    request = urllib.request.Request(f"{address.rstrip('/')}/api/v1/query", body)  # noqa: S310 - from our settings
    # Prometheus is in the cluster: ignore proxy settings of the environment.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_TIMEOUT) as response:
        document = cast("dict[str, Any]", json.load(response))
    if document.get("status") != "success":
        raise ValueError(f"Prometheus: {document.get('error')}")
    rows: list[dict[str, Any]] = document["data"]["result"]
    return [(row["metric"], float(row["value"][1])) for row in rows]
