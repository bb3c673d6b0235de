"""The classes that workspaces can be of, as the environment's settings have them: what the service decides by.

Whether one class stays within another is decided once for each pair: classes do not change while a replica runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from agentenv.core.capabilities.containment import Answer, Verdict, decide
from agentenv.core.capabilities.from_settings import cluster_facts, envelope_of
from agentenv.core.classes.names import namespace
from agentenv.core.classes.plan import ClassPlan, plans
from agentenv.core.classes.releases import Release, releases_of
from agentenv.service.http.problems import Problem

if TYPE_CHECKING:
    from agentenv.config import Settings
    from agentenv.config.sections.classes import Mode
    from agentenv.core.capabilities.cluster_facts import ClusterFacts


@dataclass(frozen=True)
class Class:
    """One class, as far as requests depend on it."""

    plan: ClassPlan
    budget: Decimal | None  # dollars a workspace and month, at the most

    @property
    def name(self) -> str:
        """Its name."""
        return self.plan.name

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return namespace(self.name)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """What its workspaces may be for."""
        return self.plan.settings.modes

    @property
    def idle_after(self) -> timedelta:
        """How long one idles before it sleeps, where it does not say so itself."""
        return self.plan.settings.suspend_after

    @property
    def max_lifetime(self) -> timedelta | None:
        """How long one may live."""
        return self.plan.settings.max_lifetime

    @property
    def kept(self) -> bool:
        """Whether its sandboxes have homes that outlive them."""
        return self.plan.slots

    @property
    def releases(self) -> tuple[Release, ...]:
        """Its releases, the stable one first."""
        return releases_of(self.plan)

    def release(self, channel: str) -> Release:
        """The release of a channel."""
        for one in self.releases:
            if one.channel == channel:
                return one
        channels = ", ".join(one.channel for one in self.releases)
        raise Problem(
            "class-unknown", f"class {self.name} has no channel {channel!r}", f"ask for one of these: {channels}"
        )


class Catalog:
    """All classes of an environment."""

    def __init__(self, settings: Settings, here: ClusterFacts | None = None) -> None:
        self.settings = settings
        self.here = here or cluster_facts(settings, api=())
        cap = settings.cost.per_user_cap
        self.classes: Mapping[str, Class] = {
            plan.name: Class(plan, plan.settings.budget if plan.settings.budget is not None else cap)
            for plan in plans(settings, self.here)
        }
        self._compare = lru_cache(maxsize=1024)(self._decided)

    @classmethod
    def of(cls, settings: Settings, vpc: tuple[str, ...] = (), services: str | None = None) -> Catalog:
        """The same, with what a deployment knows of a network and a cluster that stood already."""
        here = cluster_facts(settings, api=())
        if vpc:
            here = replace(here, vpc=vpc)
        if services:
            here = replace(here, services=(services,))
        return cls(settings, here)

    def get(self, name: str) -> Class:
        """A class by its name; a `Problem` where there is none."""
        found = self.classes.get(name)
        if found is None:
            known = ", ".join(sorted(self.classes)) or "none"
            raise Problem("class-unknown", f"there is no class {name!r}", f"ask for one of these: {known}")
        return found

    def refuse_beyond(self, child: str, parent: str) -> None:
        """A `Problem` unless a class surely stays within another, in everything that it may do."""
        if child == parent:
            return
        verdict = self._compare(child, parent)
        if verdict.answer is not Answer.YES:
            words = "may do more than" if verdict.answer is Answer.NO else "is not surely within"
            raise Problem(
                "capability-beyond-parent",
                f"class {child} {words} {parent}, which its parent is of: {verdict}",
                "ask for a class whose capabilities are within the parent's, or for one without a parent",
            )

    def _decided(self, child: str, parent: str) -> Verdict:
        one, other = self.get(child), self.get(parent)
        return decide(
            envelope_of(one.plan.settings, self.settings, self.here),
            envelope_of(other.plan.settings, self.settings, self.here),
            self.here,
        )
