"""The service for live tests: replicas of it in threads, an issuer whose keys a test holds, and callers with tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from agentenv.config import read
from agentenv.rehearsal.controlplane.client import until
from agentenv.service.configuration import Configuration
from agentenv.service.http.app import create_app
from agentenv.service.telemetry.metrics import Metrics
from tests.fast.service.http.auth.issuer import FakeIssuer
from tests.live.controlplane.objects import TIMEOUT
from tests.served import in_thread, served


@dataclass
class Served:
    """Running replicas of the service, and the issuer of tokens for them."""

    issuer: FakeIssuer
    urls: list[str]
    metrics: list[Metrics] = field(default_factory=list)

    def client(self, subject: str, replica: int = 0, **claims: Any) -> httpx2.Client:
        """Return the client of a user whom the class of the tests admits, for one of the replicas."""
        return self.client_with_token(self.issuer.token(subject, **{"team": "vetted", **claims}), replica)

    def client_with_token(self, token: str | None, replica: int = 0) -> httpx2.Client:
        """Return a client that sends a token."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx2.Client(base_url=self.urls[replica], headers=headers, timeout=90.0, trust_env=False)


def configuration(kubeconfig: Path, issuer: FakeIssuer, classes: list[dict[str, Any]], **service: Any) -> Configuration:
    """Return the configuration of a replica."""
    return configuration_of(kubeconfig, issuer.url, classes, **service)


def configuration_of(kubeconfig: Path, issuer: str, classes: list[dict[str, Any]], **service: Any) -> Configuration:
    """Return the configuration of a replica for the address of an issuer."""
    defaults = {"admins": ["admins"], "operators": ["operators"], "requestsPerMinute": 100_000}
    config = {
        "aws:region": "us-east-1",
        "agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]},
        "agent-environment:sandboxClasses": classes,
        "agent-environment:service": {**defaults, **service},
    }
    settings = read(config, "dev")
    # Settings refuse an issuer without TLS; this one is on loopback.
    ours = settings.service.model_copy(update={"issuer": issuer})
    settings = settings.model_copy(update={"service": ours})
    return Configuration(settings=settings, replica="test", kubeconfig=kubeconfig, loops=False)


@contextlib.contextmanager
def serving(configuration_: Configuration, issuer: FakeIssuer, replicas: int = 1) -> Iterator[Served]:
    """Run ready replicas, each with its own event loop."""
    replicas_ = Served(issuer, [])
    with contextlib.ExitStack() as stack:
        for _ in range(replicas):
            metrics = Metrics()
            replicas_.metrics.append(metrics)
            replicas_.urls.append(stack.enter_context(_replica(configuration_, metrics)))
        yield replicas_


@contextlib.contextmanager
def _replica(configuration_: Configuration, metrics: Metrics) -> Iterator[str]:
    with in_thread(served(create_app(configuration_, metrics))) as port:
        url = f"http://127.0.0.1:{port}"
        assert until(lambda: _is_ready(url), TIMEOUT), "the service does not become ready"
        yield url


def _is_ready(url: str) -> bool:
    with contextlib.suppress(httpx2.HTTPError):
        return httpx2.get(f"{url}/readyz", trust_env=False).status_code == 200
    return False
