"""When the data of a deleted workspace goes: once its time is over, its volume is let go by all, and nobody has it.

The volume is the record: it says whose it is, when it was deleted, and after when it may be destroyed. A volume that
was let go of in another way (a claim deleted by hand, a namespace that went) gets those dates first. Whatever is odd is
left as it is and told: what was kept a day too long is a few cents, and what was destroyed is gone. So dates alone are
not believed either: they were written by some replica's clock, and Kubernetes says since when the volume is let go of.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from agentenv.core.lifecycle.clock_skew import FURTHEST, has_passed
from agentenv.core.lifecycle.limits import Limits

# Whoever writes this on a volume has it kept, whatever its dates say.
HOLD = "sandbox.users.io/hold"
# A deletion that was cut short is taken for one that was not asked for after this: its workspace stands. A return that
# was cut short is over after it, too.
UNFINISHED = timedelta(minutes=10)

Do = Literal["leave", "date", "undate", "release", "destroy", "report"]


@dataclass(frozen=True, slots=True)
class Home:
    """A kept volume, as far as it matters here."""

    volume: str
    phase: str
    policy: str = "Retain"
    owner: str = ""
    workspace: str = ""  # or the volume claim of what a task shares
    mode: str = "user"
    deleted_at: datetime | None = None
    destroy_after: datetime | None = None
    archive_ended: datetime | None = None
    held: bool = False  # somebody wants it kept
    claimed: bool = False  # a volume claim names it
    wanted: bool = False  # its workspace stands
    going: bool = False  # and is being taken away
    returning: datetime | None = None  # since when somebody is coming back to it
    destroy_requested: bool = False
    task: str = ""  # of what the sandboxes of a task share
    released_since: datetime | None = None  # by Kubernetes' own clock


@dataclass(frozen=True)
class RetentionDecision:
    """What is to be done with a volume now; the dates that it is to have, for `date`."""

    do: Do
    why: str
    deleted_at: datetime | None = None
    destroy_after: datetime | None = None


def deletion_time(
    recorded: datetime | None, created: datetime | None, now: datetime, *, going: bool = False
) -> datetime:
    """Return the timestamp of a deletion: the one that the volume of a workspace has recorded already, else now.

    A deletion is recorded once, so that a replica that finishes or repeats it comes to the same timestamp. A record
    that may be older than the claim is of another deletion. So is one that the retention loop would take back, unless
    the claim is `going`.
    """
    if recorded is None or created is None or (not going and abs(now - recorded) > UNFINISHED):
        return now
    # Kubernetes writes creation times in whole seconds.
    return recorded if recorded - created >= timedelta(seconds=1) else now


def retention_decision(home: Home, limits: Limits, now: datetime) -> RetentionDecision:
    """What is to become of a volume."""
    of_nobody = not (home.owner and home.workspace)
    if of_nobody or home.held:
        return RetentionDecision("leave", "it is nobody's" if of_nobody else "somebody holds it")
    if home.wanted:
        return _existing_workspace(home, now)
    if home.destroy_requested and home.phase in {"Released", "Available"}:
        return _requested(home)
    if home.claimed or (home.returning is not None and abs(now - home.returning) < UNFINISHED):
        return RetentionDecision("leave", "a volume claim names it, or is about to")
    if home.phase not in {"Released", "Available"}:
        return RetentionDecision("leave", f"it is {home.phase}")
    return _deleted_workspace(home, limits, now)


def is_in_use(home: Home) -> bool:
    """Whether it is left as it is, whether or not its workspace stands: a volume claim has it, and it has no date."""
    return home.phase == "Bound" and home.claimed and home.deleted_at is None and home.destroy_after is None


def _existing_workspace(home: Home, now: datetime) -> RetentionDecision:
    """Dates of a deletion that was cut short, or of one that was taken back, are no longer true."""
    if home.returning is not None and abs(now - home.returning) < UNFINISHED:
        # A swarm returns as a whole or not at all, and until then each of its volumes is as deleted as before.
        return RetentionDecision("leave", "its workspace is returning")
    if home.deleted_at is None and home.destroy_after is None:
        return RetentionDecision("leave", "its workspace stands")
    if home.going:
        # What waits for a node takes as long as that does, and what was asked for with it holds.
        return RetentionDecision("leave", "its workspace is being taken away")
    if home.phase == "Bound" and home.deleted_at is not None and now - home.deleted_at > UNFINISHED:
        return RetentionDecision("undate", "its workspace stands")
    return RetentionDecision("leave", "its workspace stands, and may be going")


def _deleted_workspace(home: Home, limits: Limits, now: datetime) -> RetentionDecision:
    kept = limits.kept_for(home.mode)
    deleted, due = home.deleted_at, home.destroy_after
    if deleted is not None and due is not None:
        return _date(home, kept, deleted, due, now)
    if kept is None:
        return RetentionDecision("report", "nobody said how long it is kept")
    began = deleted or now
    return RetentionDecision("date", "it has no date yet", began, began + kept)


def _requested(home: Home) -> RetentionDecision:
    """Return what is to become of a volume whose destruction was requested: no clock has a part in it."""
    if home.phase == "Available":
        return RetentionDecision("release", "it waits for a volume claim that is not to come")
    if home.policy == "Delete":
        return RetentionDecision("leave", "the driver is told")
    return RetentionDecision("destroy", "its destruction was requested")


def _date(home: Home, kept: timedelta | None, deleted: datetime, due: datetime, now: datetime) -> RetentionDecision:
    if due < deleted or deleted - now > FURTHEST:
        return RetentionDecision("report", f"its dates make no sense: deleted {deleted}, to be destroyed {due}")
    ended = home.archive_ended
    if ended is not None and kept is not None and ended - now <= FURTHEST:
        # Whoever told when its chat was over may have had a clock that was behind. That it is over is seen now, and
        # from now on it is kept for as long as sessions are.
        sooner = max(now, ended, deleted) + kept
        if sooner < due:
            return RetentionDecision("date", "its chat is no longer in the archive", deleted, sooner)
    if not (has_passed(due, now) and has_passed(deleted, now)):
        return RetentionDecision("leave", f"it is kept until {due}")
    return _expire(home, due - deleted, now)


def _expire(home: Home, kept: timedelta, now: datetime) -> RetentionDecision:
    """What is to become of a volume that is past its date."""
    if home.phase == "Available":
        # Somebody began to come back on it and never did; the driver takes away what was let go of only.
        return RetentionDecision("release", "it waits for a volume claim that never came")
    if home.policy == "Delete":
        return RetentionDecision("leave", "the driver is told")
    if home.released_since is None:
        return RetentionDecision("report", "nobody says since when it is let go of")
    # Whoever wrote the dates may have had a clock that was behind; Kubernetes saw by its own how long it was kept.
    if not has_passed(home.released_since + kept, now):
        return RetentionDecision("leave", f"it is kept for {kept} from {home.released_since} on")
    return RetentionDecision("destroy", f"its time was over {home.destroy_after}")
