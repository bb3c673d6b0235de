"""A simulated cloud in this process, and the stand-in provider configured for it."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from agentenv.rehearsal.cloud.server import Cloud
from agentenv.rehearsal.providers.aws.provider import Provider
from tests.fast.rehearsal.providers.aws.samples.sample import REGION, Ground

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with Cloud.start() as cloud:
        yield cloud.url


@pytest.fixture(autouse=True)
def surroundings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a plugin as the rehearsal sets it, without that of the machine."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**KEYS, "AWS_REGION": REGION, "AGENTENV_AWS_PATIENCE": "5"}.items():
        monkeypatch.setenv(name, value)
    if "endpoint" in request.fixturenames:
        monkeypatch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("endpoint"))
    else:
        monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)


@pytest.fixture(scope="session")
def ground(endpoint: str) -> Ground:
    clients: dict[str, Any] = {}

    def client(service: str) -> Any:
        if service not in clients:
            clients[service] = boto3.client(
                service,
                region_name=REGION,
                endpoint_url=endpoint,
                aws_access_key_id="testing",
                aws_secret_access_key="testing",
            )
        return clients[service]

    return Ground(client)


@pytest.fixture(scope="session")
def provider(endpoint: str) -> Provider:
    """One for all tests that do not configure their own: its clients take longer to make than most tests."""
    created = Provider()
    with pytest.MonkeyPatch.context() as before_any_test:
        for name, value in {**KEYS, "AWS_REGION": REGION, "AWS_ENDPOINT_URL": endpoint}.items():
            before_any_test.setenv(name, value)
        created.configure({"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]})
    return created
