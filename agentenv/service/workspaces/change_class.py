"""Gives a workspace another class on the same data: it is let go of, and brought back in the other class.

From its first step on the volume says where it is going, so that whoever is killed in between is made up for by the
loop of retention.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from agentenv.service.kube.sync_client import Api, Document
from agentenv.service.workspaces.delete import let_go
from agentenv.service.workspaces.restore import Returned, bring_back, kept_volume
from agentenv.service.workspaces.retain_volume import keep

# How long its data is kept at least, should it never arrive.
ON_THE_WAY = timedelta(days=30)


def start(api: Api, claim: Document, to: str, now: datetime) -> Returned:
    """Let a workspace go, towards another class; `made` once it is on its way."""
    name = claim["metadata"]["name"]
    kept = keep(api, claim)
    if kept.outcome not in {"kept", "already"}:
        outcome = "refused" if kept.outcome == "refused" else "waiting"
        return Returned(outcome, name, kept.why or "its sandbox has no volume yet")
    gone = let_go(api, claim, ON_THE_WAY, now, moving_to=to)
    return Returned("made" if gone == "done" else "overtaken", name)


def arrive(api: Api, owner: str, workspace: str, to: str) -> Returned:
    """Bring it back in the other class, as soon as all that hung on it has let go of its volume."""
    volume = kept_volume(api, owner, workspace)
    if volume is None:
        return Returned("refused", workspace, "there is no volume of it")
    return bring_back(api, volume, to)
