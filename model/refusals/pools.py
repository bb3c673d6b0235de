"""Refusals of pools."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

from model.pools import warm_members
from model.refusals.row import Finding, Row
from model.settings.mistakes import nearest

if TYPE_CHECKING:
    from model.settings.classes import Schedule
    from model.settings.whole import Settings


def _claim_env(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        if one.claim_env and (members := warm_members(one.pool)) > 0:
            place = ("sandboxClasses", index)
            yield Finding((*place, "claimEnv"), f"true with a pool of {members}", also=((*place, "pool"),))


def _two_sizes(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        if one.pool.size is not None and one.pool.peak_claims_per_hour is not None:
            place = ("sandboxClasses", index, "pool")
            yield Finding((*place, "size"), f"{one.pool.size} with peakClaimsPerHour {one.pool.peak_claims_per_hour}")


def _over_quota(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        warm = warm_members(one.pool) * (1 + len(one.releases))
        if one.max_sandboxes is not None and warm > one.max_sandboxes:
            place = ("sandboxClasses", index)
            also = ((*place, "pool"), (*place, "releases"))
            yield Finding((*place, "maxSandboxes"), f"{one.max_sandboxes} with {warm} kept warm", also=also)


def _schedule_empty(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        for position, schedule in enumerate(one.pool.schedules):
            if schedule.start >= schedule.end:
                place = ("sandboxClasses", index, "pool", "schedules", position)
                yield Finding((*place, "end"), f"{schedule.end} after {schedule.start}", also=((*place, "start"),))


def _schedules_overlap(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        schedules = one.pool.schedules
        for position, schedule in enumerate(schedules):
            if any(_overlap(schedule, earlier) for earlier in schedules[:position]):
                place = ("sandboxClasses", index, "pool", "schedules")
                found = f"{schedule.start} to {schedule.end}, in part of another"
                yield Finding((*place, position), found, also=(place,))


@cache
def _zones() -> frozenset[str]:
    """The zones that the API server finds, too; what it takes for the zone of its own machine, it refuses."""
    return frozenset(available_timezones()) - {"localtime", "Factory"}


def _timezone_unknown(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        for position, schedule in enumerate(one.pool.schedules):
            if schedule.timezone not in _zones():
                place = ("sandboxClasses", index, "pool", "schedules", position, "timezone")
                yield Finding(place, schedule.timezone, nearest(schedule.timezone, sorted(_zones())))


def _timezones(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        schedules = one.pool.schedules
        for position, schedule in enumerate(schedules):
            if schedule.timezone != schedules[0].timezone:
                place = ("sandboxClasses", index, "pool", "schedules")
                found = f"{schedule.timezone} beside {schedules[0].timezone}"
                yield Finding((*place, position, "timezone"), found, also=(place,))


def _overlap(one: Schedule, other: Schedule) -> bool:
    same_days = set(one.days) & set(other.days) and one.timezone == other.timezone
    return bool(same_days) and one.start < other.end and other.start < one.end


ROWS = (
    Row(
        "pool-with-claim-env",
        "a claim with variables of its own never takes a warm sandbox, so the pool would cost and serve nobody",
        "claimEnv: false, or pool: {size: 0}",
        "set pool: {size: 0}, or put the variables into env of the class",
        _claim_env,
    ),
    Row(
        "pool-of-two-sizes",
        "a pool has the size it is given, or the one that follows from its claims",
        "size, or peakClaimsPerHour",
        "drop one of them",
        _two_sizes,
    ),
    Row(
        "pool-over-quota",
        "the quota counts warm sandboxes of all releases, and nobody could claim beyond them",
        "maxSandboxes of at least what is kept warm",
        "raise maxSandboxes, or shrink the pool",
        _over_quota,
    ),
    Row(
        "schedule-ends-before-it-starts",
        "a schedule lies within one day",
        'an end later than the start, "24:00" at the latest',
        "split a night into two schedules, of which one ends at 24:00 and the other starts at 00:00",
        _schedule_empty,
    ),
    Row(
        "schedules-overlap",
        "at one time a pool has one size",
        "schedules apart from each other",
        "change the days or the hours",
        _schedules_overlap,
    ),
    Row(
        "timezone-unknown",
        "Kubernetes takes no job whose time zone it does not know",
        "a time zone by its IANA name, such as Europe/Berlin",
        "name the city that has the same time",
        _timezone_unknown,
    ),
    Row(
        "schedules-of-two-timezones",
        "where one of them changes its clocks and the other does not, a schedule would end in the middle of another",
        "one time zone a pool",
        "write all times in the zone of the first",
        _timezones,
    ),
)
