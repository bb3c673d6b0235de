"""AWS credentials of a service account, obtained as its pods do: for a token that the API server signs.

A Pod Identity association comes first, as for the webhook that configures pods; then the role in the service
account's annotation, by web identity. Without either there are no credentials: nothing falls back to the run's own.
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
_FRESH_SECONDS = 300.0  # remaining validity below which new credentials are fetched


class NoCredentials(Exception):
    """The reason why there are no credentials."""


class PodCredentials:
    """Credentials of one service account, and the AWS clients that use them."""

    def __init__(self, client: Client, account: Account, namespace: str, name: str) -> None:
        self._client = client
        self._account = account
        self._namespace = namespace
        self._name = name
        self._refresh_at = 0.0
        self._credentials: Mapping[str, Any] = {}
        self._services: dict[str, Any] = {}

    def service(self, name: str) -> Any:
        """Return a client with current credentials."""
        credentials = self.current()
        if name not in self._services:
            self._services[name] = self._account.service(name, credentials)
        return self._services[name]

    def current(self) -> Mapping[str, Any]:
        """Return credentials that are not about to expire; NoCredentials if the service account gets none."""
        if time.time() > self._refresh_at:
            self.forget()
            self._credentials = self._fetch()
            self._refresh_at = self._credentials["Expiration"].timestamp() - _FRESH_SECONDS
        return self._credentials

    def forget(self) -> None:
        """Discard the current credentials, so that new ones are fetched next time."""
        self._refresh_at = 0.0
        self._services.clear()

    def _fetch(self) -> Mapping[str, Any]:
        from botocore.exceptions import ClientError

        try:
            if cluster := self._account.associated_cluster(self._namespace, self._name):
                return self._from_pod_identity(cluster)
            return self._from_web_identity()
        except ClientError as error:
            raise NoCredentials(str(error)) from error

    def _from_pod_identity(self, cluster: str) -> Mapping[str, Any]:
        if self._account.addon(AGENT) is None:
            raise NoCredentials(
                f"an association gives it a role, and the add-on {AGENT} that provides it is not installed"
            )
        request = {"clusterName": cluster, "token": self._token(PODS)}
        credentials = self._account.service("eks-auth").assume_role_for_pod_identity(**request)["credentials"]
        return {name[0].upper() + name[1:]: value for name, value in credentials.items()}

    def _from_web_identity(self) -> Mapping[str, Any]:
        service_account = self._client.find(f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{self._name}") or {}
        role = (service_account.get("metadata", {}).get("annotations") or {}).get(ROLE)
        if not role:
            raise NoCredentials("neither an association of Pod Identity nor an annotation gives it a role")
        parameters = {
            "RoleArn": role,
            "RoleSessionName": f"rehearsal-{self._name}"[:64],
            "WebIdentityToken": self._token(STS),
        }
        return self._account.service("sts").assume_role_with_web_identity(**parameters)["Credentials"]

    def _token(self, audience: str) -> str:
        spec = {"spec": {"audiences": [audience], "expirationSeconds": _TOKEN_SECONDS}}
        token_request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", **spec}
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{self._name}/token"
        return self._client.request("POST", path, token_request)["status"]["token"]
