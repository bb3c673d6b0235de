"""Record events on objects as controllers do: a repeated event increases its count."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from agentenv.rehearsal.controlplane.client import ApiError, Client

Object = dict[str, Any]


class Recorder:
    """Records the events of one controller."""

    def __init__(self, client: Client, component: str) -> None:
        self._client = client
        self._component = component

    def record(self, regarding: Object, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an event on an object; nothing if the object's namespace is gone."""
        metadata = regarding["metadata"]
        namespace = metadata.get("namespace", "default")
        digest = hashlib.sha256(f"{metadata['uid']} {reason} {message}".encode()).hexdigest()[:16]
        name, now = f"{metadata['name']}.{digest}", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path = f"/api/v1/namespaces/{namespace}/events/{name}"
        try:
            if existing := self._client.find(path):
                self._client.merge(path, {"count": existing.get("count", 1) + 1, "lastTimestamp": now})
                return
            reference = {
                key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in metadata
            }
            self._client.create(
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": name, "namespace": namespace},
                    "involvedObject": {"apiVersion": regarding["apiVersion"], "kind": regarding["kind"], **reference},
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
