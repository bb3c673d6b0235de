"""The token webhook: maps an AWS token to a Kubernetes user, as EKS's authenticator does."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from agentenv.rehearsal.controlplane.auth import access_entries
from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.auth.eks_token import PREFIX, TokenRefused, read
from agentenv.rehearsal.controlplane.client import ApiError, Client

Object = dict[str, Any]

_LOG = logging.getLogger(__name__)
_ROLE_PARTS = ("view", "edit", "admin")


class Reviewer:
    """Answers token reviews for one API server."""

    def __init__(self, account: Account, client: Client) -> None:
        self._account = account
        self._client = client

    def prepare(self) -> None:
        """Create the roles that represent access policies."""
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        rules = {part: self._client.get(f"{roles}/system:aggregate-to-{part}")["rules"] for part in _ROLE_PARTS}
        for role in access_entries.cluster_roles(rules):
            self._client.apply(role)

    def review(self, token_review: Object) -> Object:
        """Return the response to a TokenReview."""
        token = token_review.get("spec", {}).get("token", "")
        try:
            user, uid, groups = self._who(token)
            status: Object = {"authenticated": True, "user": {"username": user, "uid": uid, "groups": groups}}
            if audiences := token_review.get("spec", {}).get("audiences"):
                status["audiences"] = audiences
        except TokenRefused as refused:
            # Never log the token itself: it authenticates its holder
            if token.startswith(PREFIX):
                _LOG.warning("A token was refused: %s", refused)
            status = {"authenticated": False, "error": str(refused)}
        return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}

    def _who(self, token: str) -> tuple[str, str, list[str]]:
        presented = read(token, datetime.now(UTC), self._account.host)
        cluster = self._account.cluster_of(presented)
        if reason := self._account.unreachable(cluster):
            # In AWS the connection times out
            raise TokenRefused(f"the API server of '{cluster}' is not reached: {reason}")
        arn = self._account.caller(presented, cluster)
        caller = access_entries.principal(arn)
        if caller is None:
            raise TokenRefused(f"the caller {arn} is neither a role nor a user")
        result = self._account.entry(cluster, caller)
        if result is None:
            raise TokenRefused(f"the caller {arn} has no access entry in the cluster '{cluster}'")
        entry, associations = result
        self._bind(associations)
        user, groups = access_entries.identity(entry, caller, associations)
        if "{{" in user:
            raise TokenRefused(f"the caller {arn} has an access entry for nodes ({user}), and is none")
        return user, f"rehearsal:{caller.account}:{caller.kind}/{caller.name}", groups

    def _bind(self, associations: Sequence[access_entries.Association]) -> None:
        """Create the bindings of associations over namespaces in the existing namespaces."""
        for association in associations:
            if association.policy not in access_entries.POLICIES:
                _LOG.warning("The access policy %s is not simulated: it gives no rights here", association.policy)
        if not any(association.namespaces for association in associations):
            return
        namespaces = [row["metadata"]["name"] for row in self._client.get("/api/v1/namespaces")["items"]]
        for binding in access_entries.bindings(associations, namespaces):
            if self._client.find(self._client.path(binding)) is not None:
                continue
            try:
                self._client.apply(binding)
            except ApiError as error:
                _LOG.warning("%s could not be bound: %s", binding["metadata"], error)
