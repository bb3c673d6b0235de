"""The classes that workspaces can have, as the settings define them.

Whether one class is contained in another is decided once for each pair: classes do not change while a replica runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from agentenv.config.sections.capabilities import Grant
from agentenv.core.capabilities.containment import Answer, Finding, Verdict, decide, decide_reach
from agentenv.core.capabilities.from_settings import cluster_facts, egress_of, envelope_of, reaches_internet
from agentenv.core.capabilities.grants import RefusedGrantError
from agentenv.core.capabilities.sets.description import destination
from agentenv.core.classes.names import namespace
from agentenv.core.classes.plan import ClassPlan, plans
from agentenv.core.classes.pods.resources import ResourceRequirements, container_resources
from agentenv.core.classes.releases import Release, releases_of
from agentenv.core.classes.sizes import sizes_of
from agentenv.service.http.problems import Problem

if TYPE_CHECKING:
    from agentenv.config import Settings
    from agentenv.config.sections.capabilities import Word
    from agentenv.config.sections.classes import Mode, SizeName
    from agentenv.core.capabilities.cluster_facts import ClusterFacts


@dataclass(frozen=True)
class Class:
    """One class, as far as requests depend on it."""

    plan: ClassPlan
    budget: Decimal | None  # dollars a workspace and month, at the most

    @property
    def name(self) -> str:
        """Return the class's name."""
        return self.plan.name

    @property
    def namespace(self) -> str:
        """Return the class's namespace."""
        return namespace(self.name)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Return the modes that its workspaces may have."""
        return self.plan.settings.modes

    @property
    def idle_after(self) -> timedelta:
        """Return the idle time after which a workspace is suspended, unless it sets its own."""
        return self.plan.settings.suspend_after

    @property
    def max_lifetime(self) -> timedelta | None:
        """Return the longest life of a workspace."""
        return self.plan.settings.max_lifetime

    @property
    def has_homes(self) -> bool:
        """Return whether its sandboxes have homes that outlive them."""
        return self.plan.slots

    @cached_property
    def sizes(self) -> dict[SizeName, ResourceRequirements]:
        """Return the resources of its sandboxes in each size, the smallest first."""
        return {name: container_resources(self.plan, name) for name in sizes_of(self.plan.settings)}

    def require_size(self, name: SizeName) -> None:
        """Raise a `Problem` where the class does not have a size."""
        if name not in self.sizes:
            detail = f"class {self.name} has no size {name}"
            raise Problem("size-not-offered", detail, f"choose one of its sizes: {', '.join(self.sizes)}")

    @cached_property
    def reaches_internet(self) -> bool:
        """Return whether its sandboxes may reach the internet."""
        return reaches_internet(self.plan.settings, self.plan.cluster)

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """Return its releases, the stable one first."""
        return releases_of(self.plan)

    def release(self, channel: str) -> Release:
        """Return the release of a channel."""
        for release in self.releases:
            if release.channel == channel:
                return release
        channels = ", ".join(release.channel for release in self.releases)
        raise Problem("class-unknown", f"class {self.name} has no channel {channel!r}", f"choose one of: {channels}")


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
        self._within = lru_cache(maxsize=1024)(self._beyond)

    @classmethod
    def of(cls, settings: Settings, vpc: tuple[str, ...] = (), services: str | None = None) -> Catalog:
        """Create the catalog with what a deployment knows of an existing network and cluster."""
        here = cluster_facts(settings, api=())
        if vpc:
            here = replace(here, vpc=vpc)
        if services:
            here = replace(here, services=(services,))
        return cls(settings, here)

    def get(self, name: str) -> Class:
        """Return a class by name; raise a `Problem` where there is none."""
        sandbox_class = self.classes.get(name)
        if sandbox_class is None:
            # Without the names of the others: not every caller may use every class.
            raise Problem("class-unknown", f"there is no class {name!r}", "choose one that GET /v1/classes lists")
        return sandbox_class

    def retention(self, mode: Mode) -> timedelta:
        """Return how long the files of a deleted workspace are retained."""
        if mode == "session":
            return self.settings.service.session_retention
        return self.settings.storage.retain_deleted_for

    def limited_teams(self, teams: frozenset[str]) -> tuple[str, ...]:
        """Return those of a caller's teams that may have a limited number of workspaces."""
        return tuple(sorted(teams & {limit.team for limit in self.settings.service.team_limits}))

    def refuse_beyond(self, child: str, parent: str) -> None:
        """Raise a `Problem` unless one class is provably contained in another in all its capabilities."""
        if child == parent:
            return
        verdict = self._compare(child, parent)
        if verdict.answer is not Answer.YES:
            relation = "exceeds" if verdict.answer is Answer.NO else "is not provably within"
            raise Problem(
                "capability-beyond-parent",
                f"class {child} {relation} class {parent} of the parent: {verdict}",
                "choose a class whose capabilities are within those of the parent's class, or leave out `parent`",
            )

    def refuse_beyond_grants(self, name: str, words: frozenset[Word] | None) -> None:
        """Raise a `Problem` unless the network of a class is provably within the granted capabilities.

        Policies of the network are those of the class, so a workspace cannot have less of it. What the service itself
        gives, `identity`, it refuses to the workspace.
        """
        if words is not None and (finding := self._within(name, words)) is not None:
            detail = f"class {name} is not provably within the granted capabilities {sorted(words)}"
            surely = f": it may reach {destination(finding.exceeds)}" if finding.exceeds else ""
            raise Problem(
                "not-allowed", f"{detail}{surely}", "choose a class that has no other capabilities, or grant them"
            )

    def _beyond(self, name: str, words: frozenset[Word]) -> Finding | None:
        of_class = self.get(name)
        grants = tuple(Grant.model_validate(word) for word in sorted(words | {"identity"}))
        narrowed = of_class.plan.settings.model_copy(update={"capabilities": grants})
        try:
            return decide_reach(
                egress_of(of_class.plan.settings, self.here), egress_of(narrowed, self.here), cluster=self.here
            )
        except RefusedGrantError as refused:
            raise Problem("malformed", f"capabilities: {refused}", "leave it out") from None

    def _decided(self, child: str, parent: str) -> Verdict:
        child_class, parent_class = self.get(child), self.get(parent)
        return decide(
            envelope_of(child_class.plan.settings, self.settings, self.here),
            envelope_of(parent_class.plan.settings, self.settings, self.here),
            self.here,
        )
