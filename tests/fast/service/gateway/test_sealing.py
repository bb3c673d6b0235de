"""What is sealed is read by the service alone, for its purpose and time, also while its keys rotate."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentenv.core.service.rbac import GATEWAY_SECRETS
from agentenv.service.gateway.sealing import (
    ENTRY_KEY,
    KEEP_FOR,
    ROTATE_AFTER,
    SPREAD,
    SecretsCache,
    new_secrets,
    rotated,
    secrets_of,
    to_text,
)
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import SECRETS, KubeApiError
from tests.fast.service.workspaced.test_publish import SERVICE, cluster_of, pass_over

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def stored(text: str) -> dict[str, Any]:
    return {"data": {ENTRY_KEY: b64encode(text.encode()).decode()}}


def test_sealed_value_is_bound_to_purpose_and_time() -> None:
    secrets = new_secrets(NOW)
    sealed = secrets.seal("code", {"a": 1}, NOW)
    assert secrets.unseal("code", sealed, HOUR, NOW) == {"a": 1}
    assert secrets.unseal("person", sealed, HOUR, NOW) is None
    assert secrets.unseal("code", sealed, HOUR, NOW + HOUR + timedelta(seconds=1)) is None
    assert new_secrets(NOW).unseal("code", sealed, HOUR, NOW) is None
    for altered in (sealed[:-4] + "AAA=", "", "x" * 5000, "\u00e9", "\ud800", sealed.lower()):
        assert secrets.unseal("code", altered, HOUR, NOW) is None
    assert "code" not in sealed


def test_a_new_key_seals_once_every_replica_has_it_and_the_old_one_still_opens() -> None:
    old = new_secrets(NOW)
    sealed = old.seal("person", {"a": 1}, NOW)
    at = NOW + ROTATE_AFTER
    new = rotated(old, at)
    assert len(new.cookie_keys) == 2
    assert new.access == old.access
    early = new.seal("person", {"b": 2}, at)
    assert old.unseal("person", early, HOUR, at) == {"b": 2}, "a replica that has not read the new key yet"
    late = new.seal("person", {"b": 2}, at + SPREAD)
    assert old.unseal("person", late, HOUR, at + SPREAD) is None
    assert new.unseal("person", sealed, ROTATE_AFTER + HOUR, at) == {"a": 1}
    assert rotated(new, at) == new
    last = rotated(new, NOW + KEEP_FOR)
    assert old.cookie_keys[0] not in last.cookie_keys


def test_secrets_are_read_as_they_were_stored_and_nothing_else_is() -> None:
    secrets = rotated(new_secrets(NOW), NOW + ROTATE_AFTER)
    assert secrets_of(stored(to_text(secrets))) == secrets
    assert repr(secrets).count("Fernet") == 0
    assert secrets.access.hex() not in repr(secrets)
    broken = ("", "[]", "{}", '{"access": "AAAA", "cookies": []}', '{"access": "?", "cookies": [{"since": 1}]}')
    for text in broken:
        assert secrets_of(stored(text)) is None
    assert secrets_of(None) is None
    assert secrets_of({"data": {ENTRY_KEY: "%"}}) is None


def test_the_pass_creates_secrets_once_and_never_replaces_those_it_cannot_read() -> None:
    cluster = cluster_of("one")
    pass_over(cluster)
    secret = cluster.server.find(SECRETS, GATEWAY_SECRETS, SERVICE)
    first = secrets_of(secret)
    assert first is not None
    pass_over(cluster)
    assert secrets_of(cluster.server.find(SECRETS, GATEWAY_SECRETS, SERVICE)) == first
    cluster.advance(ROTATE_AFTER.total_seconds())
    pass_over(cluster)
    second = secrets_of(cluster.server.find(SECRETS, GATEWAY_SECRETS, SERVICE))
    assert second is not None
    assert second.access == first.access
    assert len(second.cookie_keys) == 2
    broken = {"metadata": {"name": GATEWAY_SECRETS, "namespace": SERVICE}, **stored("broken")}
    cluster.server.put(SECRETS, broken)
    pass_over(cluster)
    left = cluster.server.find(SECRETS, GATEWAY_SECRETS, SERVICE)
    assert left is not None
    assert b64decode(left["data"][ENTRY_KEY]) == b"broken"


def test_replica_has_its_secrets_while_the_api_server_is_unreachable() -> None:
    secrets = new_secrets(NOW)
    answers: list[Any] = [None, stored(to_text(secrets)), KubeApiError("away", 503), stored("broken")]

    async def read() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    cache = SecretsCache(read)
    asyncio.run(cache.refresh())
    with pytest.raises(Problem):
        cache.current()
    for _ in range(3):
        asyncio.run(cache.refresh())
        assert cache.current() == secrets
