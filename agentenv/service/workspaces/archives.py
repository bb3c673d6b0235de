"""Ties sessions to their chats: whoever keeps the chats says when one is no longer in its archive.

Said on all that there is of it, claims and the volumes of those that were deleted. What follows from it, and when, is
for the loops: the session goes, and its data as long after as its class says.
"""

from __future__ import annotations

from datetime import datetime

from agentenv.core.classes.names import MODE_LABEL
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import ARCHIVE, ARCHIVE_ENDED
from agentenv.service.kube.sync_client import CLAIMS, VOLUMES, Document, Kind, KubeApi, section

SESSIONS = {MODE_LABEL: "session"}


def end_session(api: KubeApi, archive: str, now: datetime) -> int:
    """Say that a chat left the archive; how many sessions were told. Saying it again changes nothing."""
    told = 0
    for kind in (CLAIMS, VOLUMES):
        for one in [*api.list(kind, labels=SESSIONS)]:
            if section(one["metadata"], "annotations").get(ARCHIVE) == archive:
                told += _mark_ended(api, kind, one, now)
    return told


def _mark_ended(api: KubeApi, kind: Kind, one: Document, now: datetime) -> bool:
    """Tell one, however often others write to it meanwhile."""
    about = one["metadata"]
    found: Document | None = one
    while found is not None and found["metadata"]["uid"] == about["uid"]:
        if ARCHIVE_ENDED in section(found["metadata"], "annotations"):
            return False
        if api.change(kind, found, {"metadata": {"annotations": {ARCHIVE_ENDED: format_timestamp(now)}}}):
            return True
        found = api.find(kind, about["name"], about.get("namespace"))
    return False
