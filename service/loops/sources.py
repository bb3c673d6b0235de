"""Who else sees what workspaces do: Prometheus knows of traffic, and of work that nobody watches.

Asked only about those that would go to sleep otherwise, and about no longer than that depends on. Of one whose numbers
Prometheus has not, it cannot tell.
"""

from __future__ import annotations

import functools
import json
import re
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from model.lifecycle.idle import Seen
from model.lifecycle.limits import Limits
from model.workspaces import Workspace

# Below these it breathes: keep-alives, and what an idle shell does.
NETWORK, QUIET_BYTES = "sandbox:owner_network_bytes:rate1m", 512.0
CPU, QUIET_CPU = "sandbox:owner_cpu_seconds:rate1m", 0.05
_UID = re.compile(r"[0-9a-zA-Z-]{1,64}")
_LONGEST = timedelta(hours=24)
_SHORTEST = timedelta(minutes=3)
_PATIENCE = 10.0

Query = Callable[[str], Sequence[tuple[Mapping[str, str], float]]]


class Prometheus:
    """The recording rules of the cluster, a sample a minute."""

    name = "prometheus"

    def __init__(self, address: str, query: Query | None = None) -> None:
        self._query: Query = query or functools.partial(asked, address)

    def seen(self, asked: Sequence[Workspace], limits: Mapping[str, Limits], now: datetime) -> Mapping[str, Seen]:
        """Of each, whether there was traffic or work since it would have to have been quiet."""
        found: dict[str, Seen] = {}
        for window, some in _by_window(asked, limits).items():
            uids = {one.claim_uid: one for one in some if _UID.fullmatch(one.claim_uid)}
            if not uids:
                continue
            highest = {rule: self._highest(rule, sorted(uids), window) for rule in (NETWORK, CPU)}
            for uid, one in uids.items():
                if uid not in highest[NETWORK] or uid not in highest[CPU]:
                    continue
                busy = highest[NETWORK][uid] > QUIET_BYTES or highest[CPU][uid] > QUIET_CPU
                found[one.id] = Seen(self.name, now if busy else None)
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


def asked(address: str, text: str) -> list[tuple[Mapping[str, str], float]]:
    """What a Prometheus answers to a query of now."""
    body = urllib.parse.urlencode({"query": text}).encode()
    request = urllib.request.Request(f"{address.rstrip('/')}/api/v1/query", body)  # noqa: S310 - of our configuration
    # Whatever a proxy around this process says: it is in the cluster.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_PATIENCE) as answer:
        told = cast("dict[str, Any]", json.load(answer))
    if told.get("status") != "success":
        raise ValueError(f"Prometheus: {told.get('error')}")
    rows: list[dict[str, Any]] = told["data"]["result"]
    return [(row["metric"], float(row["value"][1])) for row in rows]
