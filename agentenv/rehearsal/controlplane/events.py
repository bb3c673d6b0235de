"""Events on objects, as controllers write them: the same one again only counts up."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from agentenv.rehearsal.controlplane.client import ApiError, Client

Object = dict[str, Any]


class Recorder:
    """Writes the events of one controller."""

    def __init__(self, client: Client, component: str) -> None:
        self._client = client
        self._component = component

    def tell(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None:
        """Say something of an object; nothing if it is gone with its namespace."""
        named = about["metadata"]
        space = named.get("namespace", "default")
        same = hashlib.sha256(f"{named['uid']} {reason} {message}".encode()).hexdigest()[:16]
        name, now = f"{named['name']}.{same}", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path = f"/api/v1/namespaces/{space}/events/{name}"
        try:
            if known := self._client.find(path):
                self._client.merge(path, {"count": known.get("count", 1) + 1, "lastTimestamp": now})
                return
            involved = {key: named[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in named}
            self._client.create(
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": name, "namespace": space},
                    "involvedObject": {"apiVersion": about["apiVersion"], "kind": about["kind"], **involved},
                    "reason": reason,
                    "message": message[:1024],
                    "type": "Warning" if warning else "Normal",
                    "source": {"component": self._component},
                    "reportingComponent": self._component,
                    "reportingInstance": "rehearsal",
                    "firstTimestamp": now,
                    "lastTimestamp": now,
                    "count": 1,
                }
            )
        except ApiError as error:
            if error.status not in {403, 404, 409}:
                raise
