"""End the sessions of chats that left their archive.

Their claims, and the volumes of deleted ones, are annotated. The loops delete the session, and destroy its data after
the retention of its class.
"""

from __future__ import annotations

from datetime import datetime

from agentenv.core.classes.names import MODE_LABEL, USER_LABEL
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import ARCHIVE, ARCHIVE_ENDED
from agentenv.service.kube.client import CLAIMS, VOLUMES, Document, Kind, KubeApi, collect, section


async def end_session(api: KubeApi, owner: str, archive: str, now: datetime) -> int:
    """Record that an owner's chat left the archive; return the number of its claims and volumes that were changed."""
    marked = 0
    for kind in (CLAIMS, VOLUMES):
        for document in await collect(api.list(kind, labels={MODE_LABEL: "session", USER_LABEL: owner})):
            if section(document["metadata"], "annotations").get(ARCHIVE) == archive:
                marked += await _mark_ended(api, kind, document, now)
    return marked


async def _mark_ended(api: KubeApi, kind: Kind, document: Document, now: datetime) -> bool:
    """Annotate an object, however often other clients write to it meanwhile."""
    metadata = document["metadata"]
    current: Document | None = document
    while current is not None and current["metadata"]["uid"] == metadata["uid"]:
        if ARCHIVE_ENDED in section(current["metadata"], "annotations"):
            return False
        if await api.patch(kind, current, {"metadata": {"annotations": {ARCHIVE_ENDED: format_timestamp(now)}}}):
            return True
        current = await api.find(kind, metadata["name"], metadata.get("namespace"))
    return False
