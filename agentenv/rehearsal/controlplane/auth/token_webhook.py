"""The token webhook: takes an AWS token, answers with a Kubernetes user, as EKS's authenticator does."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from agentenv.rehearsal.controlplane.auth import access_entries as access
from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.auth.eks_token import PREFIX, TokenRefused, read
from agentenv.rehearsal.controlplane.client import ApiError, Client

Object = dict[str, Any]

_LOG = logging.getLogger(__name__)
_PARTS = ("view", "edit", "admin")


class Reviewer:
    """Answers token reviews for one API server."""

    def __init__(self, account: Account, client: Client) -> None:
        self._account = account
        self._client = client

    def prepare(self) -> None:
        """Make the roles that access policies stand for."""
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        rules = {part: self._client.get(f"{roles}/system:aggregate-to-{part}")["rules"] for part in _PARTS}
        for thing in access.cluster_roles(rules):
            self._client.apply(thing)

    def review(self, asked: Object) -> Object:
        """A TokenReview, answered."""
        token = asked.get("spec", {}).get("token", "")
        try:
            user, uid, groups = self._who(token)
            status: Object = {"authenticated": True, "user": {"username": user, "uid": uid, "groups": groups}}
            if audiences := asked.get("spec", {}).get("audiences"):
                status["audiences"] = audiences
        except TokenRefused as refused:
            # Never the token itself: it lets in whoever holds it
            if token.startswith(PREFIX):
                _LOG.warning("A token was refused: %s", refused)
            status = {"authenticated": False, "error": str(refused)}
        return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}

    def _who(self, token: str) -> tuple[str, str, list[str]]:
        presented = read(token, datetime.now(UTC), self._account.host)
        cluster = self._account.cluster_of(presented)
        arn = self._account.caller(presented, cluster)
        who = access.principal(arn)
        if who is None:
            raise TokenRefused(f"the caller {arn} is neither a role nor a user")
        found = self._account.entry(cluster, who)
        if found is None:
            raise TokenRefused(f"the caller {arn} has no access entry in the cluster '{cluster}'")
        entry, associations = found
        self._bind(associations)
        user, groups = access.identity(entry, who, associations)
        if "{{" in user:
            raise TokenRefused(f"the caller {arn} has an entry for machines ({user}), and is none")
        return user, f"rehearsal:{who.account}:{who.kind}/{who.name}", groups

    def _bind(self, associations: Sequence[access.Association]) -> None:
        """Let associations over namespaces take hold in those there are by now."""
        for one in associations:
            if one.policy not in access.POLICIES:
                _LOG.warning("The access policy %s is not simulated: it gives no rights here", one.policy)
        if not any(one.namespaces for one in associations):
            return
        spaces = [row["metadata"]["name"] for row in self._client.get("/api/v1/namespaces")["items"]]
        for thing in access.bindings(associations, spaces):
            if self._client.find(self._client.path(thing)) is not None:
                continue
            try:
                self._client.apply(thing)
            except ApiError as error:
                _LOG.warning("%s could not be bound: %s", thing["metadata"], error)
