"""When an old release of a class may go: pure decisions over what the API server lists, a step at a time.

A release that the stack no longer names stays behind in the cluster. It goes in four steps, each of which is taken only
once the one before has been seen to be done, so that it does not matter who takes it, how often, or who is killed in
between: it is *marked*, once the release in its place is full, and from then on given to nobody; *emptied* of the
members that nobody had; its pool is *removed* when no claim names it, and then its template. Sandboxes that somebody
has are never touched: upstream needs both objects for as long as their claims stand.

Full means as large as the pool is to be now. A scheduled pool is made as small as it is outside its hours, and the jobs
of its schedule come only when they change; so within them it is first *scaled* to what the old one had.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from agentenv.core.classes.names import cold_pool
from agentenv.core.classes.pools.warm_pool import divide_members

RETIRING = "sandbox.users.io/retiring"
RELEASES_KEY = "releases"
# Somebody who chose the pool before it was marked has been served after this.
SETTLED = timedelta(seconds=60)

Do = Literal["scale", "mark", "unmark", "empty", "remove-pool", "restore-pool", "remove-template"]


@dataclass(frozen=True)
class Template:
    """A SandboxTemplate, as far as it matters here."""

    name: str
    channel: str = ""
    retiring: datetime | None = None


@dataclass(frozen=True)
class Pool(Template):
    """A SandboxWarmPool."""

    desired: int = 0
    ready: int = 0
    observed: bool = True  # whether its controller has seen its last change
    members: int = 0  # sandboxes in it that nobody has, on their way out included
    template: str = ""  # what it is of; named like it where nothing is said


@dataclass(frozen=True)
class Claim:
    """A SandboxClaim."""

    name: str
    pool: str
    created: datetime
    sandbox: str | None = None


@dataclass(frozen=True)
class ClassState:
    """The releases of one class as the API server has them."""

    current: Mapping[str, Sequence[str]]  # the pools of each channel that the stack names
    pools: Sequence[Pool] = ()
    templates: Sequence[Template] = ()
    claims: Sequence[Claim] = ()
    members_now: int | None = None  # of a channel, over all its pools, where a schedule says so

    @property
    def named(self) -> frozenset[str]:
        """The pools, and with them the templates, that the stack names; an empty one beside each for who comes back."""
        names = [name for names in self.current.values() for name in names]
        return frozenset([*names, *map(cold_pool, names)])

    def least(self, channel: str) -> dict[str, int]:
        """How many members each current pool of a channel is to have by its schedule."""
        names = self.current.get(channel, ())
        return dict(zip(names, divide_members(self.members_now or 0, len(names)), strict=True)) if names else {}


@dataclass(frozen=True)
class Step:
    """Something to do to one old release, or to one that came back."""

    do: Do
    name: str
    why: str
    members: int = 0  # what it is scaled to


@dataclass(frozen=True)
class Wait:
    """An old release that stays as it is for now."""

    name: str
    why: str


@dataclass(frozen=True)
class Plan:
    """What is to be done now, and what is waited for."""

    steps: tuple[Step, ...] = ()
    waits: tuple[Wait, ...] = field(default=())


def current_pools(text: str) -> dict[str, list[str]]:
    """The pools of each channel, from how the class's constraints list them."""
    decisions: dict[str, list[str]] = {}
    for word in filter(None, text.split(",")):
        channel, _, pool = word.partition("/")
        decisions.setdefault(channel, []).append(pool)
    return decisions


def plan(state: ClassState, now: datetime) -> Plan:
    """The next step of every release that is not where it should be."""
    decisions = [*_returned(state), *_undersized(state), *_retirements(state, now), *_lone_templates(state, now)]
    return Plan(
        tuple(one for one in decisions if isinstance(one, Step)),
        tuple(one for one in decisions if isinstance(one, Wait)),
    )


def _returned(state: ClassState) -> Iterator[Step]:
    """A release that the stack names again is given out again."""
    objects: dict[str, Template] = {one.name: one for one in (*state.templates, *state.pools) if one.retiring}
    for name in sorted(objects.keys() & state.named):
        yield Step("unmark", name, "the stack names it again")


def _undersized(state: ClassState) -> Iterator[Step]:
    """The current pools that are to take an old one's place in hours that began before they were made."""
    filling_channels = {
        one.channel for one in state.pools if one.name not in state.named and not one.retiring and one.desired
    }
    pools = {one.name: one for one in state.pools}
    for channel in sorted(filling_channels & state.current.keys()):
        for name, least in state.least(channel).items():
            if name in pools and pools[name].desired < least:
                yield Step("scale", name, f"it has {pools[name].desired} members, and {least} at this time", least)


def _retirements(state: ClassState, now: datetime) -> Iterator[Step | Wait]:
    for pool in sorted(state.pools, key=lambda one: one.name):
        if pool.name not in state.named:
            yield _next_step(pool, state, now)


def _next_step(pool: Pool, state: ClassState, now: datetime) -> Step | Wait:
    if pool.retiring is None:
        return _mark_step(pool, state)
    if late := _pending_claims(pool.name, pool.retiring, state, now):
        return Wait(pool.name, late)
    if pool.desired > 0:
        return Step("empty", pool.name, f"{pool.desired} members wait for nobody any more")
    if pool.members > 0 or not pool.observed:
        return Wait(pool.name, f"{pool.members} members are on their way out")
    claims = sum(one.pool == pool.name for one in state.claims)
    return Wait(pool.name, _claims_text(claims)) if claims else Step("remove-pool", pool.name, "no claim names it")


def _mark_step(pool: Pool, state: ClassState) -> Step | Wait:
    if filling := _filling(pool.channel, state):
        return Wait(pool.name, filling)
    place = f"channel {pool.channel} is full without it" if pool.channel in state.current else "its channel is gone"
    return Step("mark", pool.name, place)


def _filling(channel: str, state: ClassState) -> str | None:
    """What of a channel's current release is not there yet."""
    pools, least = {one.name: one for one in state.pools}, state.least(channel)
    for name in state.current.get(channel, ()):
        pool = pools.get(name)
        if pool is None:
            return f"{name}, which takes its place, is not there yet"
        desired = max(pool.desired, least.get(name, 0))
        if not pool.observed or pool.ready < desired:
            return f"{name}, which takes its place, is filling: {pool.ready} of {desired}"
    return None


def _pending_claims(name: str, retiring: datetime, state: ClassState, now: datetime) -> str | None:
    """Who may have chosen a pool before it was marked, and has no sandbox yet."""
    if now - retiring < SETTLED:
        return "it is marked, and claims may be on their way"
    recent = [one for one in state.claims if one.pool == name and one.sandbox is None and now - one.created < SETTLED]
    return f"claim {recent[0].name} waits for one of its members" if recent else None


def _lone_templates(state: ClassState, now: datetime) -> Iterator[Step | Wait]:
    there = {one.name for one in state.pools}
    used = {one.template or one.name for one in state.pools}
    for template in sorted(state.templates, key=lambda one: one.name):
        if template.name in state.named:
            continue
        # Pools are named after their template: somebody claimed from one in the moment in which it went.
        lost = [name for name in (template.name, cold_pool(template.name)) if name not in there]
        desired = {name: claims for name in lost if (claims := sum(one.pool == name for one in state.claims))}
        for name, claims in desired.items():
            yield Step("restore-pool", name, _claims_text(claims))
        if desired or template.name in used:
            continue
        if template.retiring is None:
            yield Step("mark", template.name, "it has no pool")
        elif now - template.retiring < SETTLED:
            yield Wait(template.name, "it is marked, and claims may be on their way")
        else:
            yield Step("remove-template", template.name, "no claim names it")


def _claims_text(claims: int) -> str:
    return "a claim names it" if claims == 1 else f"{claims} claims name it"
