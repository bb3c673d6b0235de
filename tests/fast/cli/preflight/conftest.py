"""A simulated account in this process, and sessions whose clients have stubbed responses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from agentenv.cli.preflight.aws_calls import Account
from agentenv.cli.preflight.check import Check, Question, run_checks
from agentenv.rehearsal.cloud.server import Cloud

REGION = "us-east-1"
KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}


@pytest.fixture(scope="session")
def cloud() -> Iterator[str]:
    """Start the simulated AWS, shared by the tests of a worker."""
    with Cloud.start() as running:
        yield running.url


class StubbedSession:
    """A session whose clients return only stubbed responses, in order."""

    def __init__(self, endpoint: str = "") -> None:
        self.endpoint = endpoint
        self.stubs: dict[str, Stubber] = {}
        self.clients: dict[str, Any] = {}

    def client(self, service: str, **options: Any) -> Any:
        """Return a stubbed client, or one of the simulated cloud."""
        if service not in self.clients:
            endpoint_options = {"endpoint_url": self.endpoint} if self.endpoint else {}
            self.clients[service] = boto3.client(
                service, **{"region_name": REGION, **KEYS, **endpoint_options, **options}
            )  # pyright: ignore[reportCallIssue, reportArgumentType]
        return self.clients[service]

    def stub(self, service: str) -> Stubber:
        """Return the stub of a service."""
        if service not in self.stubs:
            self.stubs[service] = Stubber(self.client(service))
            self.stubs[service].activate()
        return self.stubs[service]

    def account(self) -> Account:
        """Return an account with this session."""
        return Account(REGION, self)  # pyright: ignore[reportArgumentType] - all of a session that is used

    def check(self, questions: Sequence[Question], name: str = "") -> Check:
        """Return the check of the only question whose name begins so."""
        (question,) = [each for each in questions if each.name.startswith(name)]
        return run_checks([question], self.account())[0]


@pytest.fixture
def stubbed() -> Iterator[StubbedSession]:
    """Return a session with stubs alone, all of which must be used."""
    session = StubbedSession()
    yield session
    for stub in session.stubs.values():
        stub.assert_no_pending_responses()


@pytest.fixture
def simulated(cloud: str) -> StubbedSession:
    """Return a session for the simulated cloud, except for stubbed services."""
    return StubbedSession(cloud)
