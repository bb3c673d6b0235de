"""The pass over the signing keys: kept in one Secret, and published in every class with workspaced."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from agentenv.core.classes.pods.daemon import KEYS
from agentenv.core.service.rbac import SIGNING_KEYS
from agentenv.service.kube.client import CONFIGURATIONS, NAMESPACES, SECRETS
from agentenv.service.loops.scheduler import PassResult
from agentenv.service.workspaced.keys import ROTATE_AFTER, SPREAD
from agentenv.service.workspaced.publish import maintain_keys
from agentenv.service.workspaced.tokens import Grant, NoSigningKeyError, TokenSigner
from tests.fast.service.fake_api_server import Api, Killed
from tests.fast.service.loops.cluster import START, Cluster

SERVICE = "workspace-service"


def cluster_of(*classes: str) -> Cluster:
    """Return a cluster with the classes, of which `plain` has no workspaced."""
    cluster = Cluster()
    for name in classes:
        labels = {"sandbox.users.io/class": name}
        cluster.server.put(NAMESPACES, {"metadata": {"name": f"sandbox-{name}", "labels": labels}})
        if name != "plain":
            cluster.server.put(CONFIGURATIONS, {"metadata": {"name": KEYS, "namespace": f"sandbox-{name}"}})
    return cluster


def pass_over(cluster: Cluster, *, leads: Callable[[], bool] = lambda: True) -> PassResult:
    context = cluster.context()
    context.namespace = SERVICE
    return asyncio.run(maintain_keys(context, leads))


def published(cluster: Cluster, name: str) -> list[str]:
    """Return the ids of the keys that a class has."""
    configmap = cluster.server.find(CONFIGURATIONS, KEYS, f"sandbox-{name}")
    assert configmap is not None
    text = (configmap.get("data") or {}).get("keys.json", '{"keys": []}')
    assert "private" not in text
    return [row["kid"] for row in json.loads(text)["keys"]]


def stored(cluster: Cluster) -> list[dict[str, Any]]:
    secret = cluster.server.find(SECRETS, SIGNING_KEYS, SERVICE)
    return [] if secret is None else json.loads(b64decode(secret["data"]["keys.json"]))


def test_the_first_pass_creates_a_key_and_publishes_it_where_there_is_workspaced() -> None:
    cluster = cluster_of("one", "two", "plain")
    assert pass_over(cluster).failures == ()
    (key,) = stored(cluster)
    assert published(cluster, "one") == published(cluster, "two") == [key["id"]]
    assert cluster.server.find(CONFIGURATIONS, KEYS, "sandbox-plain") is None
    assert "published" in key


def test_a_second_pass_changes_nothing() -> None:
    cluster = cluster_of("one")
    pass_over(cluster)
    before = json.dumps(cluster.server.find(SECRETS, SIGNING_KEYS, SERVICE))
    assert pass_over(cluster) == PassResult()
    assert json.dumps(cluster.server.find(SECRETS, SIGNING_KEYS, SERVICE)) == before


def test_new_class_and_class_with_changed_keys_get_the_keys() -> None:
    cluster = cluster_of("one")
    pass_over(cluster)
    cluster.server.put(NAMESPACES, {"metadata": {"name": "sandbox-two", "labels": {"sandbox.users.io/class": "two"}}})
    cluster.server.put(CONFIGURATIONS, {"metadata": {"name": KEYS, "namespace": "sandbox-two"}})
    foreign = {"metadata": {"name": KEYS, "namespace": "sandbox-one"}, "data": {"keys.json": '{"keys": []}'}}
    cluster.server.put(CONFIGURATIONS, foreign)
    pass_over(cluster)
    assert published(cluster, "one") == published(cluster, "two") == [stored(cluster)[0]["id"]]


def test_a_replica_that_no_longer_leads_dates_no_key() -> None:
    cluster = cluster_of("one", "two")
    answers = iter([True, False, False])
    result = pass_over(cluster, leads=lambda: next(answers))
    assert result.failures
    assert "published" not in stored(cluster)[0]
    pass_over(cluster)
    assert "published" in stored(cluster)[0]


def test_a_pass_that_is_killed_after_any_write_is_continued() -> None:
    for change in range(1, 20):
        cluster = cluster_of("one", "two")

        def kill(number: int, change: int = change) -> None:
            if number == change:
                raise Killed

        cluster.server.before = kill
        try:
            pass_over(cluster)
        except Killed:
            cluster.server.before = lambda _: None
            pass_over(cluster)
            assert len(stored(cluster)) == 1
            assert published(cluster, "one") == published(cluster, "two") == [stored(cluster)[0]["id"]]
            assert "published" in stored(cluster)[0]
        else:
            assert change > 3
            return
    pytest.fail("it never came to its end")


def test_tokens_are_signed_with_the_old_key_until_the_new_one_is_in_every_pod() -> None:
    cluster = cluster_of("one")
    pass_over(cluster)
    (first,) = stored(cluster)
    cluster.now = START + ROTATE_AFTER
    pass_over(cluster)
    assert len(stored(cluster)) == len(published(cluster, "one")) == 2
    assert signing_id(cluster) == first["id"]
    cluster.now += SPREAD
    assert signing_id(cluster) != first["id"]
    cluster.now += timedelta(hours=1)
    pass_over(cluster)
    assert first["id"] not in published(cluster, "one")


def test_without_a_key_nothing_is_signed() -> None:
    with pytest.raises(NoSigningKeyError):
        signing_id(cluster_of("one"))


def signing_id(cluster: Cluster) -> str:
    import jwt

    signer = TokenSigner(Api(cluster.server), SERVICE, lambda: cluster.now)
    token = asyncio.run(signer.sign(Grant("p", "control")))
    return jwt.get_unverified_header(token)["kid"]
