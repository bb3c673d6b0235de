"""The retirement of old releases: pure decisions over the listed objects, one step at a time.

A release that the stack no longer names stays in the cluster. It is deleted in four steps. Each step needs the one
before to be observed as done, so steps may be repeated or interrupted at any point:

1. *mark* it, once the release that replaces it is full; from then on it is not claimed from;
2. *empty* it of unclaimed members;
3. *remove* its pool, once no claim names it;
4. *remove* its template.

Claimed sandboxes are never touched: the controller needs both objects as long as their claims exist.

Full means the size that the pool should have now. A new scheduled pool has the size of outside its hours, and the jobs
of its schedule only run when the size changes; so within its hours it is first *scaled*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from agentenv.core.classes.names import cold_pool
from agentenv.core.classes.pools.sizes import divide_members

RETIRING = "sandbox.users.io/retiring"
RELEASES_KEY = "releases"
# After this time, claims on a pool from before it was marked have their sandbox.
SETTLED = timedelta(seconds=60)

Do = Literal["scale", "mark", "unmark", "empty", "remove-pool", "restore-pool", "remove-template"]


@dataclass(frozen=True)
class Template:
    """The fields of a SandboxTemplate that decide."""

    name: str
    channel: str = ""
    retiring: datetime | None = None


@dataclass(frozen=True)
class Pool(Template):
    """The fields of a SandboxWarmPool that decide."""

    desired: int = 0
    ready: int = 0
    observed: bool = True  # whether its controller has observed the latest generation
    members: int = 0  # its unclaimed sandboxes, those that are deleted included
    template: str = ""  # its template; empty if that has the name of the pool


@dataclass(frozen=True)
class Claim:
    """The fields of a SandboxClaim that decide."""

    name: str
    pool: str
    created: datetime
    sandbox: str | None = None


@dataclass(frozen=True)
class ClassState:
    """The release objects of one class in the cluster."""

    current: Mapping[str, Sequence[str]]  # by channel: the pools that the stack names
    pools: Sequence[Pool] = ()
    templates: Sequence[Template] = ()
    claims: Sequence[Claim] = ()
    members_now: int | None = None  # of a channel, over all its pools, by the schedule

    @property
    def named(self) -> frozenset[str]:
        """Return the names of pools and templates that the stack names, with the cold pool of each."""
        names = [name for names in self.current.values() for name in names]
        return frozenset([*names, *map(cold_pool, names)])

    def least(self, channel: str) -> dict[str, int]:
        """Return the scheduled size of each current pool of a channel."""
        names = self.current.get(channel, ())
        return dict(zip(names, divide_members(self.members_now or 0, len(names)), strict=True)) if names else {}


@dataclass(frozen=True)
class Step:
    """An action on an old release, or on one that the stack names again."""

    do: Do
    name: str
    why: str
    members: int = 0  # the new size, for `scale`


@dataclass(frozen=True)
class Wait:
    """An old release that stays as it is for now, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Plan:
    """The actions to take now, and the releases that wait."""

    steps: tuple[Step, ...] = ()
    waits: tuple[Wait, ...] = field(default=())


def current_pools(text: str) -> dict[str, list[str]]:
    """Return the pools by channel, from the text in the class's ConfigMap."""
    pools: dict[str, list[str]] = {}
    for word in filter(None, text.split(",")):
        channel, _, pool = word.partition("/")
        pools.setdefault(channel, []).append(pool)
    return pools


def plan(state: ClassState, now: datetime) -> Plan:
    """Return the next step of every old release, and of those that the stack names again."""
    decisions = [*_returned(state), *_undersized(state), *_retirements(state, now), *_lone_templates(state, now)]
    return Plan(
        tuple(decision for decision in decisions if isinstance(decision, Step)),
        tuple(decision for decision in decisions if isinstance(decision, Wait)),
    )


def _returned(state: ClassState) -> Iterator[Step]:
    """Yield an `unmark` step for each release that the stack names again."""
    objects: dict[str, Template] = {
        object_.name: object_ for object_ in (*state.templates, *state.pools) if object_.retiring
    }
    for name in sorted(objects.keys() & state.named):
        yield Step("unmark", name, "the stack names it again")


def _undersized(state: ClassState) -> Iterator[Step]:
    """Yield a `scale` step for each current pool that is smaller than its schedule, while it replaces an old one."""
    filling_channels = {
        pool.channel for pool in state.pools if pool.name not in state.named and not pool.retiring and pool.desired
    }
    pools = {pool.name: pool for pool in state.pools}
    for channel in sorted(filling_channels & state.current.keys()):
        for name, least in state.least(channel).items():
            if name in pools and pools[name].desired < least:
                yield Step("scale", name, f"it has {pools[name].desired} members, and {least} at this time", least)


def _retirements(state: ClassState, now: datetime) -> Iterator[Step | Wait]:
    for pool in sorted(state.pools, key=lambda pool: pool.name):
        if pool.name not in state.named:
            yield _next_step(pool, state, now)


def _next_step(pool: Pool, state: ClassState, now: datetime) -> Step | Wait:
    if pool.retiring is None:
        return _mark_step(pool, state)
    if late := _pending_claims(pool.name, pool.retiring, state, now):
        return Wait(pool.name, late)
    if pool.desired > 0:
        return Step("empty", pool.name, f"{pool.desired} members are no longer needed")
    if pool.members > 0 or not pool.observed:
        return Wait(pool.name, f"{pool.members} members are being deleted")
    claims = sum(claim.pool == pool.name for claim in state.claims)
    return Wait(pool.name, _claims_text(claims)) if claims else Step("remove-pool", pool.name, "no claim names it")


def _mark_step(pool: Pool, state: ClassState) -> Step | Wait:
    if filling := _filling(pool.channel, state):
        return Wait(pool.name, filling)
    reason = f"channel {pool.channel} is full without it" if pool.channel in state.current else "its channel is gone"
    return Step("mark", pool.name, reason)


def _filling(channel: str, state: ClassState) -> str | None:
    """Return why a channel's current release is not full yet, or None if it is."""
    pools, least = {pool.name: pool for pool in state.pools}, state.least(channel)
    for name in state.current.get(channel, ()):
        pool = pools.get(name)
        if pool is None:
            return f"{name}, which replaces it, does not exist yet"
        desired = max(pool.desired, least.get(name, 0))
        if not pool.observed or pool.ready < desired:
            return f"{name}, which replaces it, is filling: {pool.ready} of {desired}"
    return None


def _pending_claims(name: str, retiring: datetime, state: ClassState, now: datetime) -> str | None:
    """Return why claims from before a pool was marked may have no sandbox yet, or None."""
    if now - retiring < SETTLED:
        return "it was marked recently, and new claims may still name it"
    recent = [
        claim
        for claim in state.claims
        if claim.pool == name and claim.sandbox is None and now - claim.created < SETTLED
    ]
    return f"claim {recent[0].name} waits for one of its members" if recent else None


def _lone_templates(state: ClassState, now: datetime) -> Iterator[Step | Wait]:
    existing = {pool.name for pool in state.pools}
    used = {pool.template or pool.name for pool in state.pools}
    for template in sorted(state.templates, key=lambda template: template.name):
        if template.name in state.named:
            continue
        # Pools are named after their template: a claim may name a pool that has just been deleted.
        lost = [name for name in (template.name, cold_pool(template.name)) if name not in existing]
        desired = {name: claims for name in lost if (claims := sum(claim.pool == name for claim in state.claims))}
        for name, claims in desired.items():
            yield Step("restore-pool", name, _claims_text(claims))
        if desired or template.name in used:
            continue
        if template.retiring is None:
            yield Step("mark", template.name, "it has no pool")
        elif now - template.retiring < SETTLED:
            yield Wait(template.name, "it was marked recently, and new claims may still name it")
        else:
            yield Step("remove-template", template.name, "no claim names it")


def _claims_text(claims: int) -> str:
    return "a claim names it" if claims == 1 else f"{claims} claims name it"
