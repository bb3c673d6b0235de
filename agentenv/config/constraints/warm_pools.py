"""Refusals of pools."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

from agentenv.config.constraints.classes import on_nodes
from agentenv.config.constraints.constraint import Finding, Row
from agentenv.config.mistakes import nearest
from agentenv.core.classes.pools.sizes import warm_members
from agentenv.core.nodes.from_settings import node_layout
from agentenv.core.nodes.node_pools import Demand, node_pools
from agentenv.core.nodes.tiers import wall_of
from agentenv.core.values.quantities import Quantity

if TYPE_CHECKING:
    from agentenv.config.sections.classes import Schedule
    from agentenv.config.settings import Settings


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


def _over_limits(settings: Settings) -> Iterator[Finding]:
    layout, limits = node_layout(settings.capacity), settings.capacity.limits
    for place, one in on_nodes(settings):
        asked = Demand(one.tier, one.kernel, one.capacity, one.gpu > 0)
        kinds = [
            pool
            for pool in node_pools(layout, [asked])
            if not pool.system and one.architecture in {"any", pool.architecture}
        ]
        overhead = wall_of(one.tier, one.kernel).overhead
        members = warm_members(one.pool) * (1 + len(one.releases))
        for word, request, limit in (
            ("cpu", one.resources.cpu, limits.cpu),
            ("memory", one.resources.memory, limits.memory),
        ):
            each = request.value + Quantity.parse(overhead.get(word, "0")).value
            # One that is larger than all of it has a row of its own.
            if kinds and request.value <= limit.value and members * each > len(kinds) * limit.value:
                also = tuple((*place, key) for key in ("compute", "tier", "kernel", "capacity", "architecture", "pool"))
                found = f"{members} of {request} with capacity.limits.{word} {limit}"
                yield Finding((*place, "resources", word), found, also=(*also, ("capacity",)))


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
        "pool-over-limits",
        "Karpenter launches no node beyond its pools' limits, so what is kept warm would never all find a place",
        "as much as capacity.limits has for the class's kinds of nodes",
        "raise capacity.limits, shrink the pool, or ask for less",
        _over_limits,
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
