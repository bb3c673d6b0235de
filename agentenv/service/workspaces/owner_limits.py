"""Limits on the number of workspaces: of an owner in a class, of an owner in all classes, and of a team.

Each replica counts in its own view, and the limits hold for all replicas together. Events of a watch come in the order
of etcd. So when a claim appears in a view, the view has all claims that were created before it, and no other: its rank.
A claim with a rank above a limit is deleted by the request that created it: a new workspace, a restored one, or a swarm
as a whole. Without a rank, as after a watch was renewed, all claims of the owner are listed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agentenv.core.classes.names import USER_LABEL
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.catalog import Catalog
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import CLAIMS, Document, KubeApi
from agentenv.service.kube.unreadable import readable
from agentenv.service.kube.view import ClusterView, Rank
from agentenv.service.kube.workspace_counts import Group, WorkspaceCounts, of_class, of_owner, of_team

# Seconds to wait for the event of a created claim before all claims are listed.
EVENT_SECONDS = 2.0


@dataclass(frozen=True)
class Limit:
    """The number of workspaces that a group may have."""

    group: Group
    most: int
    words: str

    def problem(self, count: int) -> Problem:
        """Return the problem of a request for more."""
        return Problem(
            "limit-reached",
            f"{self.words} may have {self.most} workspaces, and there are {count}",
            "delete a workspace that is not needed, or ask the platform team for more",
            limit=self.most,
        )


class OwnerLimits:
    """The limits of one environment."""

    def __init__(
        self, kube: KubeApi, view: ClusterView, catalog: Catalog, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kube, self._view, self._catalog, self._clock = kube, view, catalog, clock
        service = catalog.settings.service
        self._per_owner = service.max_per_owner
        self._per_team = {limit.team: limit.workspaces for limit in service.team_limits}

    def check(self, planned: Workspace, *, more: int = 1) -> None:
        """Raise a `Problem` where so many more workspaces are too many, by this replica's view."""
        for limit in self._limits(planned):
            self._refuse_above(limit, more)

    def check_class(self, workspace: Workspace, class_name: str) -> None:
        """Raise a `Problem` where an existing workspace is one too many for another class."""
        if (limit := self._class_limit(workspace.owner, class_name)) is not None:
            self._refuse_above(limit, 1)

    def _refuse_above(self, limit: Limit, more: int) -> None:
        count = self._view.counts.of(limit.group)
        if count + more > limit.most:
            raise limit.problem(count)

    async def admit(self, claim: Document) -> None:
        """Delete a claim that this replica has just created, and raise a `Problem`, where it is one too many."""
        created = workspace_of_claim(claim)
        if created is not None and (problem := await self.exceeded(created)) is not None:
            await self._kube.delete(CLAIMS, claim, any_version=True)
            raise problem

    async def exceeded(self, *created: Workspace, now: bool = False) -> Problem | None:
        """Return why a claim was one too many when it was created, or one of the members of a swarm; or is `now`."""
        limits = list(self._limits(created[0]))
        if not limits:
            return None
        ranks = None if now else await self.ranks(created)
        counts = [rank.counts for rank in ranks] if ranks else [await self._listed(created[0])]
        for limit in limits:
            if (rank := max(row.of(limit.group) for row in counts)) > limit.most:
                return limit.problem(rank - len(created))
        return None

    async def ranks(self, created: Sequence[Workspace]) -> list[Rank] | None:
        """Return what existed when each of some claims appeared; None if some is unknown."""
        deadline = self._clock() + EVENT_SECONDS
        for workspace in created:
            while not self._view.has_claim(workspace) and (left := deadline - self._clock()) > 0:
                await self._view.wait_for_change(workspace.id, left)
        ranks = [rank for each in created if (rank := self._view.rank(each.claim_uid)) is not None]
        return ranks if len(ranks) == len(created) else None

    async def _listed(self, created: Workspace) -> WorkspaceCounts:
        """Return the numbers of workspaces as they are now."""
        counts = WorkspaceCounts()
        listed = self._kube.list(CLAIMS, labels={USER_LABEL: created.owner} if not created.limited_teams else None)
        async for _, workspace in readable("SandboxClaim", listed, workspace_of_claim):
            if workspace is not None:
                counts.add(workspace)
        return counts

    def _limits(self, workspace: Workspace) -> Iterator[Limit]:
        owner = workspace.owner
        if (limit := self._class_limit(owner, workspace.class_name)) is not None:
            yield limit
        # The members of a swarm are limited by its class alone
        if workspace.task is None and self._per_owner is not None:
            yield Limit(of_owner(owner), self._per_owner, "an owner")
        for team in workspace.limited_teams:
            if team in self._per_team:
                yield Limit(of_team(team), self._per_team[team], f"team {team}")

    def _class_limit(self, owner: str, class_name: str) -> Limit | None:
        found = self._catalog.classes.get(class_name)
        most = found.plan.settings.max_per_owner if found else None
        return None if most is None else Limit(of_class(owner, class_name), most, f"an owner of class {class_name}")
