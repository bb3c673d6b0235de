"""Remote services of a replica that can hang: a relay before each accepts connections and answers none meanwhile."""

from __future__ import annotations

import json
import secrets
import ssl
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from agentenv.cli.main import CommandError
from agentenv.core.service.deployment import LOOPS
from agentenv.core.service.rbac import NAME
from agentenv.rehearsal.controlplane.auth.certificates import Authority
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.controlplane.ports import HOST
from agentenv.rehearsal.issuer import RehearsalIssuer
from agentenv.rehearsal.stage.stage import Stage
from tests.relay import Relay

Object = dict[str, Any]

# The services of AWS that hang by themselves; botocore reads an endpoint of each from a variable.
AWS = ("dynamodb", "sts")
NAMES = (*AWS, "issuer", "prometheus")
_ROLLOUT_SECONDS = 300.0


class _EmptyPrometheus(BaseHTTPRequestHandler):
    """A Prometheus without samples."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.do_GET()

    def do_GET(self) -> None:
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
        """Log nothing."""


@dataclass(frozen=True)
class Remotes:
    """The relays by name, and the issuer behind one of them."""

    relays: dict[str, Relay]
    issuer: RehearsalIssuer
    authority: Authority

    def configure(self, config: Object) -> None:
        """Name issuer and Prometheus in a stack's configuration."""
        service = config["agent-environment:service"]
        service["issuer"] = self.relays["issuer"].address
        # Settings want https, as the issuer has; the deployment's flag gets the relay's own address.
        service["prometheus"] = f"https://{HOST}"

    def lead(self, client: Client) -> None:
        """Lead the replicas to the relays, and wait until all have been replaced."""
        variables = [
            {"name": f"AWS_ENDPOINT_URL_{name.upper()}", "value": self.relays[name].address} for name in AWS
        ] + [{"name": "SSL_CERT_FILE", "value": str(self.authority.ca)}]
        flag = "--prometheus="
        for name in (NAME, LOOPS):
            path = f"/apis/apps/v1/namespaces/{NAME}/deployments/{name}"
            pod = client.get(path)["spec"]["template"]["spec"]
            for container in pod["containers"]:
                container["env"] = [*container.get("env", []), *variables]
                container["args"] = [
                    f"{flag}{self.relays['prometheus'].address}" if argument.startswith(flag) else argument
                    for argument in container["args"]
                ]
            client.merge(path, {"spec": {"template": {"spec": pod}}})
        wait_for_replicas(client)


def wait_for_replicas(client: Client) -> None:
    """Wait until every pod of the service is of the newest template, and Ready."""

    def complete(name: str) -> bool:
        deployment = client.get(f"/apis/apps/v1/namespaces/{NAME}/deployments/{name}")
        status, replicas = deployment["status"], deployment["spec"]["replicas"]
        counts = {status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")}
        return status.get("observedGeneration") == deployment["metadata"]["generation"] and counts == {replicas}

    if not until(lambda: complete(NAME) and complete(LOOPS), _ROLLOUT_SECONDS):
        raise CommandError(f"the pods of the service were not replaced within {_ROLLOUT_SECONDS:.0f} s")


@contextmanager
def remotes(opened: Stage) -> Generator[Remotes]:
    """Start an issuer and a Prometheus, and a relay before each remote service."""
    authority = Authority(opened.run.folder / f"issuer-{secrets.token_hex(2)}")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.server("issuer", [HOST]))
    issuer, prometheus = RehearsalIssuer(()), ThreadingHTTPServer((HOST, 0), _EmptyPrometheus)
    cloud = urlsplit(opened.cloud)
    targets = {
        **dict.fromkeys(AWS, (cloud.hostname or HOST, cloud.port or 80)),
        "issuer": (HOST, urlsplit(issuer.url).port or 80),
        "prometheus": (HOST, prometheus.server_port),
    }
    with ExitStack() as ending:
        ending.enter_context(issuer.running())
        threading.Thread(target=prometheus.serve_forever, args=(0.1,), daemon=True).start()
        ending.callback(prometheus.server_close)
        ending.callback(prometheus.shutdown)
        relays = {name: Relay(targets[name], tls if name == "issuer" else None) for name in NAMES}
        for relay in relays.values():
            ending.callback(relay.close)
        issuer.url = relays["issuer"].address
        yield Remotes(relays, issuer, authority)
