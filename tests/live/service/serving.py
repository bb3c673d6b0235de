"""The service for live tests: replicas of it in threads, an issuer whose keys a test holds, and callers with tokens."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from model.settings import read
from service.app import make_app
from service.configuration import Configuration
from service.telemetry.metrics import Metrics

AUDIENCE = "agent-environment"


class Signing:
    """A key of an issuer."""

    def __init__(self, name: str, algorithm: str = "ES256", bits: int = 2048) -> None:
        self.name, self.algorithm = name, algorithm
        rsa_key = algorithm[:2] in {"RS", "PS"}
        self.private: Any = (
            rsa.generate_private_key(65537, bits) if rsa_key else ec.generate_private_key(ec.SECP256R1())
        )

    @property
    def public(self) -> dict[str, Any]:
        """As an issuer shows it."""
        family = jwt.get_algorithm_by_name(self.algorithm)
        shown: dict[str, Any] = json.loads(family.to_jwk(self.private.public_key()))
        shown.pop("key_ops", None)
        return {**shown, "kid": self.name, "use": "sig", "alg": self.algorithm}


class TestIssuer:
    """An issuer of tokens on loopback."""

    __test__ = False

    def __init__(self) -> None:
        self.keys: list[Signing] = [Signing("first")]
        self.fetched = 0
        issuer = self

        class Answering(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                documents: dict[str, Any] = {
                    "/.well-known/openid-configuration": {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"},
                    "/keys": {"keys": [key.public for key in issuer.keys]},
                }
                issuer.fetched += self.path == "/keys"
                body = json.dumps(documents.get(self.path, {})).encode()
                self.send_response(200 if self.path in documents else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def token(
        self, subject: str, *, key: Signing | None = None, header: Mapping[str, Any] | None = None, **claims: Any
    ) -> str:
        """A token of somebody's, good for an hour unless claims say otherwise; None leaves a claim out."""
        now = int(time.time())
        said = {"iss": self.url, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + 3600, **claims}
        signing = key or self.keys[0]
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(said, signing.private, signing.algorithm, {"kid": signing.name, **(header or {})})


@dataclass
class Served:
    """Replicas of the service, and who asks them."""

    issuer: TestIssuer
    urls: list[str]
    metrics: list[Metrics] = field(default_factory=list)

    def client(self, subject: str, replica: int = 0, **claims: Any) -> httpx2.Client:
        """Somebody of those who may have what tests have, at one of the replicas."""
        return self.bearing(self.issuer.token(subject, **{"team": "vetted", **claims}), replica)

    def bearing(self, token: str | None, replica: int = 0) -> httpx2.Client:
        """Whoever has a token."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx2.Client(base_url=self.urls[replica], headers=headers, timeout=90.0, trust_env=False)


def configuration(kubeconfig: Path, issuer: TestIssuer, classes: list[dict[str, Any]], **service: Any) -> Configuration:
    """What a replica is told."""
    said = {"admins": ["admins"], "operators": ["operators"], "requestsPerMinute": 100_000}
    config = {
        "aws:region": "us-east-1",
        "agent-environment:sandboxClasses": classes,
        "agent-environment:service": {**said, **service},
    }
    settings = read(config, "dev")
    # Settings take none that is reached in clear; this one is on this machine.
    ours = settings.service.model_copy(update={"issuer": issuer.url})
    settings = settings.model_copy(update={"service": ours})
    return Configuration(settings=settings, replica="test", kubeconfig=kubeconfig, loops=False)


@contextlib.contextmanager
def serving(told: Configuration, issuer: TestIssuer, replicas: int = 1) -> Iterator[Served]:
    """Replicas that answer, each with a loop of its own."""
    served = Served(issuer, [])
    with contextlib.ExitStack() as stack:
        for _ in range(replicas):
            metrics = Metrics()
            served.metrics.append(metrics)
            served.urls.append(stack.enter_context(_replica(told, metrics)))
        yield served


@contextlib.contextmanager
def _replica(told: Configuration, metrics: Metrics) -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(make_app(told, metrics), log_config=None, access_log=False, proxy_headers=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        for _ in range(300):
            with contextlib.suppress(httpx2.HTTPError):
                if httpx2.get(f"{url}/readyz", trust_env=False).status_code == 200:
                    break
            time.sleep(0.1)
        else:
            raise AssertionError("the service does not become ready")
        yield url
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
