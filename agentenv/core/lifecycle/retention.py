"""When the data of a deleted workspace is destroyed: after its retention period, once its volume is released.

The volume is the record: it has its owner, the time of the deletion, and the time after which it may be destroyed. A
volume that was released in another way (a claim deleted by hand, a deleted namespace) gets those dates first. Anything
unexpected is reported and left unchanged: a day of storage costs a few cents, and destroyed data is lost. So the dates
alone do not suffice, because a replica's clock wrote them: Kubernetes also records since when a volume is released.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from agentenv.core.lifecycle.clock_skew import FURTHEST, has_passed
from agentenv.core.lifecycle.limits import Limits

# A volume with this annotation is retained, whatever its dates.
HOLD = "sandbox.users.io/hold"
# After this time an interrupted deletion is undone if its workspace exists, and an interrupted restore has ended.
UNFINISHED = timedelta(minutes=10)

Do = Literal["leave", "date", "undate", "release", "destroy", "empty", "report"]


@dataclass(frozen=True, slots=True)
class Home:
    """The fields of a retained volume that decide."""

    volume: str
    phase: str
    policy: str = "Retain"
    owner: str = ""
    workspace: str = ""  # or the volume claim that the sandboxes of a task share
    mode: str = "user"
    deleted_at: datetime | None = None
    destroy_after: datetime | None = None
    archive_ended: datetime | None = None
    held: bool = False  # whether it has the annotation `HOLD`
    claimed: bool = False  # whether a volume claim names it
    workspace_exists: bool = False  # whether its workspace exists
    going: bool = False  # whether its workspace is being deleted
    returning: datetime | None = None  # since when its workspace is being restored
    destroy_requested: bool = False
    emptying: bool = False  # whether its files are being removed, before it is deleted
    task: str = ""  # for the shared volume of a task
    recovered: bool = False  # whether it was created again in another cluster, and its workspace was not used since
    released_since: datetime | None = None  # by the clock of Kubernetes


@dataclass(frozen=True)
class RetentionDecision:
    """The action for a volume, and for `date` its new dates."""

    do: Do
    why: str
    deleted_at: datetime | None = None
    destroy_after: datetime | None = None


def deletion_time(
    recorded: datetime | None, created: datetime | None, now: datetime, *, going: bool = False
) -> datetime:
    """Return the timestamp of a deletion: the one that the volume of a workspace has recorded already, else now.

    A deletion is recorded once, so that a replica that finishes or repeats it gets the same timestamp. A record that
    may be older than the claim is of another deletion. So is one that the retention loop would remove, unless the claim
    is `going`.
    """
    if recorded is None or created is None or (not going and abs(now - recorded) > UNFINISHED):
        return now
    # Kubernetes writes creation times in whole seconds.
    return recorded if recorded - created >= timedelta(seconds=1) else now


def retention_decision(home: Home, limits: Limits, now: datetime) -> RetentionDecision:
    """Return the action for a volume."""
    unowned = not (home.owner and home.workspace)
    if home.held or (unowned and not home.emptying):
        return RetentionDecision("leave", "it has no owner" if unowned else f"it has the annotation {HOLD}")
    if home.emptying:
        return RetentionDecision("empty", "its files are being removed")
    if home.workspace_exists:
        return _existing_workspace(home, now)
    if home.destroy_requested and home.phase in {"Released", "Available"}:
        return _requested(home)
    named = home.claimed or (home.returning is not None and abs(now - home.returning) < UNFINISHED)
    if named or home.phase not in {"Released", "Available"}:
        why = "a volume claim names it, or will soon" if named else f"it is {home.phase}"
        return RetentionDecision("leave", why)
    return _deleted_workspace(home, limits, now)


def is_in_use(home: Home) -> bool:
    """Return whether a volume needs no action in any case: it is bound to a volume claim and has no dates."""
    undated = home.deleted_at is None and home.destroy_after is None
    return home.phase == "Bound" and home.claimed and undated and not home.emptying


def _existing_workspace(home: Home, now: datetime) -> RetentionDecision:
    """Return the action for a volume whose workspace exists: dates of an interrupted deletion are removed."""
    if home.returning is not None and abs(now - home.returning) < UNFINISHED:
        # A swarm is restored as a whole or not at all; until then its volumes keep their dates.
        return RetentionDecision("leave", "its workspace is being restored")
    if home.deleted_at is None and home.destroy_after is None:
        return RetentionDecision("leave", "its workspace exists")
    if home.going:
        # A deletion that waits for a node may take long, and keeps its dates.
        return RetentionDecision("leave", "its workspace is being deleted")
    if home.phase == "Bound" and home.deleted_at is not None and now - home.deleted_at > UNFINISHED:
        return RetentionDecision("undate", "its workspace exists")
    return RetentionDecision("leave", "its workspace exists, and may be in deletion")


def _deleted_workspace(home: Home, limits: Limits, now: datetime) -> RetentionDecision:
    retention = limits.kept_for(home.mode)
    deleted, due = home.deleted_at, home.destroy_after
    if deleted is not None and due is not None:
        return _date(home, retention, deleted, due, now)
    if home.recovered and deleted is None:
        return RetentionDecision("leave", "its workspace was recovered, and is restored when it is used")
    if retention is None:
        return RetentionDecision("report", "its class has no retention period")
    began = deleted or now
    return RetentionDecision("date", "it has no dates yet", began, began + retention)


def _requested(home: Home) -> RetentionDecision:
    """Return the action for a volume whose destruction was requested, whatever the time."""
    if home.phase == "Available":
        return RetentionDecision("release", "it waits for a volume claim that will not be created")
    if home.policy == "Delete":
        return RetentionDecision("leave", "the driver deletes it")
    return RetentionDecision("destroy", "its destruction was requested")


def _date(
    home: Home, retention: timedelta | None, deleted: datetime, due: datetime, now: datetime
) -> RetentionDecision:
    if due < deleted or deleted - now > FURTHEST:
        return RetentionDecision("report", f"its dates are invalid: deleted {deleted}, to be destroyed {due}")
    ended = home.archive_ended
    if ended is not None and retention is not None and ended - now <= FURTHEST:
        # The clock that wrote the end of the chat may have been behind, so the retention of sessions starts now.
        sooner = max(now, ended, deleted) + retention
        if sooner < due:
            return RetentionDecision("date", "its chat is no longer in the archive", deleted, sooner)
    if not (has_passed(due, now) and has_passed(deleted, now)):
        return RetentionDecision("leave", f"it is retained until {due}")
    return _expire(home, due - deleted, now)


def _expire(home: Home, retention: timedelta, now: datetime) -> RetentionDecision:
    """Return the action for a volume after its retention period."""
    if home.phase == "Available":
        # A restore was started and not finished; the driver only deletes released volumes.
        return RetentionDecision("release", "it waits for a volume claim that was never created")
    if home.policy == "Delete":
        return RetentionDecision("leave", "the driver deletes it")
    if home.released_since is None:
        return RetentionDecision("report", "it is unknown since when it is released")
    # The clock that wrote the dates may have been behind, so the clock of Kubernetes must agree.
    if not has_passed(home.released_since + retention, now):
        return RetentionDecision("leave", f"it is retained for {retention} from {home.released_since} on")
    return RetentionDecision("destroy", f"its retention ended {home.destroy_after}")
