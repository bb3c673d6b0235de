"""Who else sees what workspaces do: Prometheus knows of traffic, and of work that nobody watches.

Asked only about those that would go to sleep otherwise, and about no longer than that depends on. Of one whose numbers
Prometheus has not, it cannot tell. A source that failed is not asked again in the same pass: who waits for it for ten
seconds does so once.
"""

from __future__ import annotations

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
        self._away: set[str] = set()

    def seen(self, asked: Sequence[Workspace]) -> dict[str, list[Activity]]:
        """What each source knows of each workspace, by id; one that fails does not know."""
        found: dict[str, list[Activity]] = {one.id: [] for one in asked}
        for source in self._sources if asked else ():
            told: Mapping[str, Activity] = {}
            if source.name not in self._away:
                try:
                    told = source.seen(asked, self._limits, self._now)
                except Exception as failure:  # noqa: BLE001 - whatever it is, it has not seen them
                    self._away.add(source.name)
                    facts = {"source": source.name, "why": f"{type(failure).__name__}: {failure}"}
                    _LOG.warning("who sleeps cannot be told: a source fails", extra={"facts": facts})
            for one in asked:
                found[one.id].append(told.get(one.id, Activity(source.name, known=False)))
        return found


class Prometheus:
    """The recording rules of the cluster, a sample a minute."""

    name = "prometheus"

    def __init__(self, address: str, query: Query | None = None) -> None:
        self._query: Query = query or functools.partial(query_prometheus, address)

    def seen(self, asked: Sequence[Workspace], limits: Mapping[str, Limits], now: datetime) -> Mapping[str, Activity]:
        """Of each, whether there was traffic or work since it would have to have been quiet."""
        found: dict[str, Activity] = {}
        for window, some in _by_window(asked, limits).items():
            uids = {one.claim_uid: one for one in some if _UID.fullmatch(one.claim_uid)}
            if not uids:
                continue
            highest = {rule: self._highest(rule, sorted(uids), window) for rule in (NETWORK, CPU)}
            for uid, one in uids.items():
                if uid not in highest[NETWORK] or uid not in highest[CPU]:
                    continue
                busy = highest[NETWORK][uid] > QUIET_BYTES or highest[CPU][uid] > QUIET_CPU
                found[one.id] = Activity(self.name, now if busy else None)
        return found

    def _highest(self, rule: str, uids: Sequence[str], window: int) -> dict[str, float]:
        chosen = "|".join(uids)
        text = f'max by (claim_uid) (max_over_time({rule}{{claim_uid=~"{chosen}"}}[{window}s]))'
        return {labels["claim_uid"]: value for labels, value in self._query(text) if "claim_uid" in labels}


def _by_window(asked: Sequence[Workspace], limits: Mapping[str, Limits]) -> dict[int, list[Workspace]]:
    """Workspaces by how long each has to have been quiet, in seconds."""
    found: dict[int, list[Workspace]] = {}
    for one in asked:
        after = one.idle_after if one.idle_after is not None else limits.get(one.class_name, Limits()).suspend_after
        window = min(max(after or _SHORTEST, _SHORTEST), _LONGEST)
        found.setdefault(int(window.total_seconds()), []).append(one)
    return found


def query_prometheus(address: str, text: str) -> list[tuple[Mapping[str, str], float]]:
    """What a Prometheus answers to a query of now."""
    body = urllib.parse.urlencode({"query": text}).encode()
    request = urllib.request.Request(f"{address.rstrip('/')}/api/v1/query", body)  # noqa: S310 - of our configuration
    # Whatever a proxy around this process says: it is in the cluster.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_TIMEOUT) as answer:
        told = cast("dict[str, Any]", json.load(answer))
    if told.get("status") != "success":
        raise ValueError(f"Prometheus: {told.get('error')}")
    rows: list[dict[str, Any]] = told["data"]["result"]
    return [(row["metric"], float(row["value"][1])) for row in rows]
