"""AWS keys for what runs under a service account, got as its pods get them: for a token that the API server signs.

An association of Pod Identity comes first, as for the webhook that tells pods where to go; else the role that the
account's annotation names, by web identity. Who has neither has no keys: nothing falls back to the run's own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.client import Client

Object = dict[str, Any]

ROLE = "eks.amazonaws.com/role-arn"
STS, PODS = "sts.amazonaws.com", "pods.eks.amazonaws.com"
AGENT = "eks-pod-identity-agent"
_TOKEN_SECONDS = 3600
_FRESH_SECONDS = 300.0  # what keys have left when new ones are fetched


class NoKeys(Exception):
    """Why there are none."""


class PodKeys:
    """Keys of one service account, and the clients of AWS's services that use them."""

    def __init__(self, client: Client, account: Account, namespace: str, name: str) -> None:
        self._client = client
        self._account = account
        self._namespace = namespace
        self._name = name
        self._until = 0.0
        self._keys: Mapping[str, Any] = {}
        self._services: dict[str, Any] = {}

    def service(self, name: str) -> Any:
        """A client of a service, with keys that have some time left; NoKeys if the account gets none."""
        if time.time() > self._until:
            self.forget()
            self._keys = self._fetched()
            self._until = self._keys["Expiration"].timestamp() - _FRESH_SECONDS
        if name not in self._services:
            self._services[name] = self._account.service(name, self._keys)
        return self._services[name]

    def forget(self) -> None:
        """Fetch new keys next time: those that there are lead nowhere."""
        self._until = 0.0
        self._services.clear()

    def _fetched(self) -> Mapping[str, Any]:
        from botocore.exceptions import ClientError

        try:
            if cluster := self._account.associated(self._namespace, self._name):
                return self._from_the_agent(cluster)
            return self._by_web_identity()
        except ClientError as error:
            raise NoKeys(str(error)) from error

    def _from_the_agent(self, cluster: str) -> Mapping[str, Any]:
        if self._account.addon(AGENT) is None:
            raise NoKeys(f"an association gives it a role, and the add-on {AGENT} that hands it out is not installed")
        asked = {"clusterName": cluster, "token": self._token(PODS)}
        given = self._account.service("eks-auth").assume_role_for_pod_identity(**asked)["credentials"]
        return {name[0].upper() + name[1:]: value for name, value in given.items()}

    def _by_web_identity(self) -> Mapping[str, Any]:
        found = self._client.find(f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{self._name}") or {}
        role = (found.get("metadata", {}).get("annotations") or {}).get(ROLE)
        if not role:
            raise NoKeys("neither an association of Pod Identity nor an annotation gives it a role")
        said = {
            "RoleArn": role,
            "RoleSessionName": f"rehearsal-{self._name}"[:64],
            "WebIdentityToken": self._token(STS),
        }
        return self._account.service("sts").assume_role_with_web_identity(**said)["Credentials"]

    def _token(self, audience: str) -> str:
        wanted = {"spec": {"audiences": [audience], "expirationSeconds": _TOKEN_SECONDS}}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", **wanted}
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{self._name}/token"
        return self._client.request("POST", path, asked)["status"]["token"]
