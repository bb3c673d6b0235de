"""Constraints on warm pools and their schedules."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

from agentenv.config.constraints.classes import on_nodes
from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.config.mistakes import nearest
from agentenv.core.classes.pools.sizes import warm_members
from agentenv.core.nodes.node_pools import Demand, architecture_of, node_pools
from agentenv.core.nodes.tiers import wall_of
from agentenv.core.values.quantities import Quantity

if TYPE_CHECKING:
    from agentenv.config.sections.classes import Schedule
    from agentenv.config.settings import Settings


def _claim_env(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if sandbox_class.claim_env and (members := warm_members(sandbox_class.pool)) > 0:
            place = ("sandboxClasses", index)
            yield Finding((*place, "claimEnv"), f"true with a pool of {members}", also=((*place, "pool"),))


def _two_sizes(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if sandbox_class.pool.size is not None and sandbox_class.pool.peak_claims_per_hour is not None:
            place = ("sandboxClasses", index, "pool")
            yield Finding(
                (*place, "size"),
                f"{sandbox_class.pool.size} with peakClaimsPerHour {sandbox_class.pool.peak_claims_per_hour}",
            )


def _over_quota(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        warm = warm_members(sandbox_class.pool) * (1 + len(sandbox_class.releases))
        if sandbox_class.max_sandboxes is not None and warm > sandbox_class.max_sandboxes:
            place = ("sandboxClasses", index)
            also = ((*place, "pool"), (*place, "releases"))
            yield Finding(
                (*place, "maxSandboxes"), f"{sandbox_class.max_sandboxes} with {warm} warm sandboxes", also=also
            )


def _over_limits(settings: Settings) -> Iterator[Finding]:
    limits = settings.capacity.limits
    for place, sandbox_class in on_nodes(settings):
        demand = Demand(sandbox_class.tier, sandbox_class.kernel, sandbox_class.capacity, sandbox_class.gpu > 0)
        kinds = [
            pool
            for pool in node_pools(settings.capacity, [demand])
            if not pool.system and architecture_of(sandbox_class, settings.capacity) in {"any", pool.architecture}
        ]
        overhead = wall_of(sandbox_class.tier, sandbox_class.kernel).overhead
        members = warm_members(sandbox_class.pool) * (1 + len(sandbox_class.releases))
        for word, request, limit in (
            ("cpu", sandbox_class.resources.cpu, limits.cpu),
            ("memory", sandbox_class.resources.memory, limits.memory),
        ):
            release = request.value + Quantity.parse(overhead.get(word, "0")).value
            # A single sandbox above the limit has its own constraint.
            if kinds and request.value <= limit.value and members * release > len(kinds) * limit.value:
                also = tuple((*place, key) for key in ("compute", "tier", "kernel", "capacity", "architecture", "pool"))
                found = f"{members} of {request} with capacity.limits.{word} {limit}"
                yield Finding((*place, "resources", word), found, also=(*also, ("capacity",)))


def _schedule_empty(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        for position, schedule in enumerate(sandbox_class.pool.schedules):
            if schedule.start >= schedule.end:
                place = ("sandboxClasses", index, "pool", "schedules", position)
                yield Finding((*place, "end"), f"{schedule.end} after {schedule.start}", also=((*place, "start"),))


def _schedules_overlap(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        schedules = sandbox_class.pool.schedules
        for position, schedule in enumerate(schedules):
            if any(_overlap(schedule, earlier) for earlier in schedules[:position]):
                place = ("sandboxClasses", index, "pool", "schedules")
                found = f"{schedule.start} to {schedule.end}, which overlaps another"
                yield Finding((*place, position), found, also=(place,))


@cache
def _zones() -> frozenset[str]:
    """Return the time zones that the API server accepts; it rejects names that mean its machine's own zone."""
    return frozenset(available_timezones()) - {"localtime", "Factory"}


def _timezone_unknown(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        for position, schedule in enumerate(sandbox_class.pool.schedules):
            if schedule.timezone not in _zones():
                place = ("sandboxClasses", index, "pool", "schedules", position, "timezone")
                # No abbreviation: those of other continents are similar.
                known = [zone for zone in _zones() if "/" in zone] if "/" in schedule.timezone else []
                yield Finding(place, schedule.timezone, nearest(schedule.timezone, sorted(known)))


def _timezones(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        schedules = sandbox_class.pool.schedules
        for position, schedule in enumerate(schedules):
            if schedule.timezone != schedules[0].timezone and {schedule.timezone, schedules[0].timezone} <= _zones():
                place = ("sandboxClasses", index, "pool", "schedules")
                found = f"{schedule.timezone} beside {schedules[0].timezone}"
                yield Finding((*place, position, "timezone"), found, also=(place,))


def _overlap(schedule: Schedule, other: Schedule) -> bool:
    same_days = set(schedule.days) & set(other.days) and schedule.timezone == other.timezone
    return bool(same_days) and schedule.start < other.end and other.start < schedule.end


CONSTRAINTS = (
    Constraint(
        "pool-with-claim-env",
        "a claim with its own variables never adopts a warm sandbox, so the pool would never be used",
        "claimEnv: false, or pool: {size: 0}",
        "set pool: {size: 0}, or move the variables to env of the class",
        _claim_env,
    ),
    Constraint(
        "pool-of-two-sizes",
        "the size of a pool is either fixed or derived from its claims",
        "size, or peakClaimsPerHour",
        "remove one of them",
        _two_sizes,
    ),
    Constraint(
        "pool-over-quota",
        "the quota includes the warm sandboxes of all releases",
        "maxSandboxes of at least the number of warm sandboxes",
        "raise maxSandboxes, or reduce the pool",
        _over_quota,
    ),
    Constraint(
        "pool-over-limits",
        "Karpenter launches no nodes beyond the limits of a node pool, so some warm sandboxes would never be scheduled",
        "at most capacity.limits for the node pools of the class",
        "raise capacity.limits, reduce the pool, or request less",
        _over_limits,
    ),
    Constraint(
        "schedule-ends-before-it-starts",
        "a schedule must end on the day it starts",
        'an end later than the start, "24:00" at the latest',
        "split a night into two schedules: one that ends at 24:00 and one that starts at 00:00",
        _schedule_empty,
    ),
    Constraint(
        "schedules-overlap",
        "a pool has one size at a time",
        "schedules that do not overlap",
        "change the days or the times",
        _schedules_overlap,
    ),
    Constraint(
        "timezone-unknown",
        "Kubernetes rejects a CronJob with an unknown time zone",
        "a time zone by its IANA name, such as Europe/Berlin",
        "use the IANA name of a city in the same time zone",
        _timezone_unknown,
    ),
    Constraint(
        "schedules-of-two-timezones",
        "daylight saving time would make schedules in different time zones overlap",
        "one time zone for each pool",
        "use the time zone of the first schedule for all of them",
        _timezones,
    ),
)
