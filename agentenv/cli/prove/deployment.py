"""A deployed stack, as its promises are tested: its engine, account, cluster, service and workspaces.

The same tests run in an account and in a rehearsal. Only `Surroundings` differ: where calls to AWS go, and where the
load balancer of the stack listens.
"""

from __future__ import annotations

import functools
import json
import secrets
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import httpx2

from agentenv.cli.prove.kubernetes import client_of
from agentenv.cli.prove.promises import Broken, NotTried
from agentenv.client import Client
from agentenv.client.connect_json import SandboxError
from agentenv.client.sandbox import Command, Ended, Output
from agentenv.core.classes.names import EXTENSIONS, namespace
from agentenv.rehearsal.controlplane.client import until

if TYPE_CHECKING:
    from agentenv.client.api import WorkspaceCreate
    from agentenv.config import Settings
    from agentenv.config.sections.classes import SandboxClass
    from agentenv.rehearsal.controlplane.client import Client as KubeClient
    from agentenv.rehearsal.stage.engine import Engine
    from agentenv.rehearsal.stage.policy_packs import Packs

Object = dict[str, Any]
Found = TypeVar("Found")

_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
_TOKEN_SECONDS = 4 * 3600
_SCOPES: tuple[Literal["read", "use", "create", "wake", "admin"], ...] = ("read", "use", "create", "wake", "admin")
_COMMAND_SECONDS = 120.0
# A node may have to be launched first.
START_SECONDS = 600.0


@dataclass(frozen=True)
class Surroundings:
    """The differences between an account and a rehearsal."""

    simulated: bool
    aws: Callable[[str], Any]  # a client of a service of AWS, in the stack's region
    # The address where the load balancer of these outputs listens, and the file with its authority; None: the system's
    balancer: Callable[[Mapping[str, Any]], tuple[str, int, Path | None]]


class ThroughBalancer(httpx2.BaseTransport):
    """Sends every request to the load balancer, whatever its host resolves to; certificates are those of the host."""

    def __init__(self, address: str, port: int, authority: Path | None) -> None:
        context = ssl.create_default_context(cafile=None if authority is None else str(authority))
        self._http = httpx2.HTTPTransport(verify=context, trust_env=False)
        self._address, self._port = address, port

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; its `Host` header is already set."""
        request.extensions = {**request.extensions, "sni_hostname": request.url.host}
        request.url = request.url.copy_with(host=self._address, port=self._port)
        return self._http.handle_request(request)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


@dataclass
class Deployment:
    """A stack under proof."""

    engine: Engine
    settings: Settings
    packs: Packs
    surroundings: Surroundings
    folder: Path  # of this proof; holds the journal, the logs and the report
    spot_role: str | None = None  # the role that AWS FIS may assume to interrupt an instance
    report: Callable[[str], None] = field(default=lambda _: None)

    @functools.cached_property
    def outputs(self) -> Mapping[str, Any]:
        """Return the outputs of the stack."""
        return self.engine.outputs()

    @functools.cached_property
    def kubernetes(self) -> KubeClient:
        """Return a client of the cluster, with the identity that runs the engine."""
        document = self.outputs.get("kubeconfig")
        if not document:
            raise NotTried("the stack has no cluster")
        kubeconfig = json.loads(document) if isinstance(document, str) else document
        return client_of(kubeconfig, self.folder, self.engine.environment)

    def client(self, service: str) -> Any:
        """Return a client of AWS, or of the cluster where the service is `kubernetes`."""
        return self.kubernetes if service == "kubernetes" else self.surroundings.aws(service)

    @functools.cached_property
    def service(self) -> Client:
        """Return a client of the service through the stack's load balancer, with an API key.

        A service account of the cluster creates the key: the gateway does not accept its own tokens.
        """
        domain = self.settings.service.domain
        if not domain or not self.outputs.get("serviceAddress"):
            raise NotTried("the stack has no service.domain, so its workspaces cannot be entered")
        address, port, authority = self.surroundings.balancer(self.outputs)
        account = f"prove-{secrets.token_hex(3)}"
        self.kubernetes.create(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": "default"}}
        )
        spec = {"audiences": [self.settings.service.audience], "expirationSeconds": _TOKEN_SECONDS}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        token = self.kubernetes.request("POST", f"{_ACCOUNTS}/{account}/token", request)["status"]["token"]
        self._account = account

        def client(credential: str) -> Client:
            return Client(f"https://api.{domain}", credential, ThroughBalancer(address, port, authority))

        with client(token) as creator:
            unreachable = "the service does not respond through its load balancer"
            self.wait(lambda: _responds(creator), START_SECONDS, unreachable)
            key = creator.create_key({"name": account, "scopes": [*_SCOPES], "expires_in": _TOKEN_SECONDS})
        self._key = key["id"]
        return client(key["key"])

    _account: str | None = None
    _key: str | None = None

    def release(self) -> None:
        """Delete what the tests created beside the stack."""
        service: Client | None = vars(self).pop("service", None)
        if service is not None and self._key is not None:
            service.revoke_key(self._key)
            service.close()
        if self._account is not None:
            self.kubernetes.delete(f"{_ACCOUNTS}/{self._account}")
        self._account = self._key = None

    def enterable_class(self) -> SandboxClass:
        """Return the first class with a warm pool whose sandboxes can be entered."""
        for each in self.settings.sandbox_classes:
            if each.pool.size and "user" in each.modes and each.daemon != "none":
                return each
        raise NotTried("the stack has no class of mode user with a warm pool whose sandboxes can be entered")

    @contextmanager
    def workspace(self) -> Iterator[Object]:
        """Yield a new workspace that runs; it is destroyed afterwards."""
        key = f"prove-{secrets.token_hex(3)}"
        request: WorkspaceCreate = {"class": self.enterable_class().name, "mode": "user", "key": key}
        id_ = self.service.create_workspace(request, wait=60)["id"]
        try:
            yield self.running(id_)
        finally:
            self.service.delete_workspace(id_, destroy=True)

    def running(self, id_: str, seconds: float = START_SECONDS) -> Object:
        """Wait until a workspace runs."""

        def look() -> Object | None:
            found = dict(self.service.get_workspace(id_))
            return found if found["state"] == "running" else None

        return self.wait(look, seconds, f"the workspace {id_} does not run")

    def run(self, id_: str, script: str) -> str:
        """Run a shell script in a workspace through the gateway, and return its output; `Broken` unless it succeeds.

        While its pod is being replaced the gateway asks to repeat the request.
        """

        def attempt() -> tuple[str] | None:
            try:
                return (self._run(id_, script),)
            except SandboxError as error:
                if error.code != "unavailable":
                    raise
                return None

        return self.wait(attempt, START_SECONDS, f"{id_} cannot be entered")[0]

    def _run(self, id_: str, script: str) -> str:
        output: list[bytes] = []
        errors: list[bytes] = []
        command = Command(("/bin/sh", "-c", script), timeout=_COMMAND_SECONDS)
        for event in self.service.sandbox(id_).start(command):
            match event:
                case Output("stderr", data):
                    errors.append(data)
                case Output(_, data):
                    output.append(data)
                case Ended(0):
                    return b"".join(output).decode(errors="replace")
                case Ended(code):
                    text = b"".join(errors).decode(errors="replace").strip()[-300:]
                    raise Broken(f"a command in {id_} ended with {code}: {text}")
                case _:
                    continue
        raise Broken(f"the connection to {id_} ended before its command")

    def pod(self, workspace: Object) -> Object:
        """Return the pod of a workspace's sandbox."""
        space = namespace(workspace["class"])
        claim = self.kubernetes.get(f"/apis/{EXTENSIONS}/namespaces/{space}/sandboxclaims/{workspace['id']}")
        return self.kubernetes.get(f"/api/v1/namespaces/{space}/pods/{claim['status']['sandbox']['name']}")

    def wait(self, condition: Callable[[], Found | None], seconds: float, failure: str) -> Found:
        """Return the first result of a condition; `Broken` if there is none in time."""
        began = time.monotonic()
        found = until(condition, seconds, every=0.5)
        if not found:
            raise Broken(f"{failure} after {time.monotonic() - began:.0f} s")
        return found


def _responds(client: Client) -> bool:
    from agentenv.client import ClientError

    try:
        client.get_caller()
    except ClientError:
        return False
    return True
