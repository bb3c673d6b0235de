"""The running sandboxes, as the service reaches them: through workspaced in their pods, with tokens of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx2

from agentenv.client.connect_json import SandboxError
from agentenv.client.sandbox import AsyncSandbox
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.http.dependencies import Sandboxes, SignEntry
from agentenv.service.workspaced.client import TOKEN_HEADER, Signer, WorkspacedClient, WorkspacedError
from agentenv.service.workspaced.tokens import Grant, NoSigningKeyError
from agentenv.service.workspaces.backend_protocol import Backend, Endpoint

# The pod of a workspace that has just become ready may not be in the cache of this replica yet.
_LAG_SECONDS = 10.0
_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=200, keepalive_expiry=60)


class PodSandboxes(Sandboxes):
    """Reaches the workspaced of every running workspace."""

    def __init__(self, backend: Backend, signer: Signer) -> None:
        self._backend, self._signer = backend, signer
        self._client = WorkspacedClient(signer)
        # Sandboxes are in the cluster: whatever proxy this process has is not for them.
        self._transport = httpx2.AsyncHTTPTransport(trust_env=False, limits=_LIMITS)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()
        await self._transport.aclose()

    async def sandbox(self, workspace: Workspace, sign: SignEntry | None = None) -> AsyncSandbox:
        """Return a client of the processes and files of a running workspace; `sign` returns tokens of a session."""
        endpoint = await self._found(workspace)
        http = httpx2.AsyncClient(
            base_url=f"http://{endpoint.destination}",
            transport=self._transport,
            auth=_TokenAuth(endpoint, sign or self._sign),
            headers={"Accept-Encoding": "identity"},
        )
        return AsyncSandbox(http)

    async def initialize(self, workspace: Workspace, variables: Mapping[str, str]) -> None:
        """Set variables of the environment of all later processes."""
        await self._control("POST", workspace, "/init", {"envVars": dict(variables)})

    async def metrics(self, workspace: Workspace) -> Mapping[str, Any]:
        """Return the current use of CPU, memory and disk."""
        return await self._control("GET", workspace, "/metrics")

    async def _sign(self, endpoint: Endpoint) -> str:
        return await self._signer.sign(Grant(endpoint.pod_uid, "api", endpoint.claim_uid))

    async def _control(
        self, method: str, workspace: Workspace, path: str, body: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        pod = await self._found(workspace)
        try:
            return await self._client.request(method, pod, path, body)
        except (WorkspacedError, NoSigningKeyError) as failure:
            raise SandboxError("unavailable", str(failure)) from failure

    async def _found(self, workspace: Workspace) -> Endpoint:
        endpoint = await self._backend.reachable(workspace.id, wait=_LAG_SECONDS)
        if endpoint is None:
            raise SandboxError("unavailable", "the workspace does not run, or its class has no workspaced")
        return endpoint


class _TokenAuth(httpx2.Auth):
    """Signs a token for each request: it is valid for a minute."""

    def __init__(self, endpoint: Endpoint, sign: SignEntry) -> None:
        self._endpoint, self._sign = endpoint, sign

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Add the token of a request."""
        try:
            request.headers[TOKEN_HEADER] = await self._sign(self._endpoint)
        except NoSigningKeyError as failure:
            raise SandboxError("unavailable", str(failure)) from failure
        yield request
