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
from agentenv.service.workspaced.tokens import NoSigningKeyError, TokenSigner
from tests.fast.service.fake_api_server import Api, Killed
from tests.fast.service.loops.cluster import START, House

SERVICE = "workspace-service"


def house(*classes: str) -> House:
    """Return a cluster with the classes, of which `plain` has no workspaced."""
    found = House()
    for name in classes:
        labels = {"sandbox.users.io/class": name}
        found.shelf.put(NAMESPACES, {"metadata": {"name": f"sandbox-{name}", "labels": labels}})
        if name != "plain":
            found.shelf.put(CONFIGURATIONS, {"metadata": {"name": KEYS, "namespace": f"sandbox-{name}"}})
    return found


def pass_over(house_: House, *, leads: Callable[[], bool] = lambda: True) -> PassResult:
    context = house_.context()
    context.namespace = SERVICE
    return asyncio.run(maintain_keys(context, leads))


def published(house_: House, name: str) -> list[str]:
    """Return the ids of the keys that a class has."""
    configmap = house_.shelf.find(CONFIGURATIONS, KEYS, f"sandbox-{name}")
    assert configmap is not None
    text = (configmap.get("data") or {}).get("keys.json", '{"keys": []}')
    assert "private" not in text
    return [row["kid"] for row in json.loads(text)["keys"]]


def stored(house_: House) -> list[dict[str, Any]]:
    secret = house_.shelf.find(SECRETS, SIGNING_KEYS, SERVICE)
    return [] if secret is None else json.loads(b64decode(secret["data"]["keys.json"]))


def test_the_first_pass_creates_a_key_and_publishes_it_where_there_is_workspaced() -> None:
    made = house("one", "two", "plain")
    assert pass_over(made).failures == ()
    (key,) = stored(made)
    assert published(made, "one") == published(made, "two") == [key["id"]]
    assert made.shelf.find(CONFIGURATIONS, KEYS, "sandbox-plain") is None
    assert "published" in key


def test_a_second_pass_changes_nothing() -> None:
    made = house("one")
    pass_over(made)
    before = json.dumps(made.shelf.find(SECRETS, SIGNING_KEYS, SERVICE))
    assert pass_over(made) == PassResult()
    assert json.dumps(made.shelf.find(SECRETS, SIGNING_KEYS, SERVICE)) == before


def test_a_new_class_and_one_whose_keys_were_changed_get_them() -> None:
    made = house("one")
    pass_over(made)
    made.shelf.put(NAMESPACES, {"metadata": {"name": "sandbox-two", "labels": {"sandbox.users.io/class": "two"}}})
    made.shelf.put(CONFIGURATIONS, {"metadata": {"name": KEYS, "namespace": "sandbox-two"}})
    foreign = {"metadata": {"name": KEYS, "namespace": "sandbox-one"}, "data": {"keys.json": '{"keys": []}'}}
    made.shelf.put(CONFIGURATIONS, foreign)
    pass_over(made)
    assert published(made, "one") == published(made, "two") == [stored(made)[0]["id"]]


def test_a_replica_that_no_longer_leads_dates_no_key() -> None:
    made = house("one", "two")
    answers = iter([True, False, False])
    result = pass_over(made, leads=lambda: next(answers))
    assert result.failures
    assert "published" not in stored(made)[0]
    pass_over(made)
    assert "published" in stored(made)[0]


def test_a_pass_that_is_killed_after_any_write_is_continued() -> None:
    for change in range(1, 20):
        made = house("one", "two")

        def kill(number: int, change: int = change) -> None:
            if number == change:
                raise Killed

        made.shelf.before = kill
        try:
            pass_over(made)
        except Killed:
            made.shelf.before = lambda _: None
            pass_over(made)
            assert len(stored(made)) == 1
            assert published(made, "one") == published(made, "two") == [stored(made)[0]["id"]]
            assert "published" in stored(made)[0]
        else:
            assert change > 3
            return
    pytest.fail("it never came to its end")


def test_tokens_are_signed_with_the_old_key_until_the_new_one_is_in_every_pod() -> None:
    made = house("one")
    pass_over(made)
    (first,) = stored(made)
    made.now = START + ROTATE_AFTER
    pass_over(made)
    assert len(stored(made)) == len(published(made, "one")) == 2
    assert signing_id(made) == first["id"]
    made.now += SPREAD
    assert signing_id(made) != first["id"]
    made.now += timedelta(hours=1)
    pass_over(made)
    assert first["id"] not in published(made, "one")


def test_without_a_key_nothing_is_signed() -> None:
    with pytest.raises(NoSigningKeyError):
        signing_id(house("one"))


def signing_id(house_: House) -> str:
    import jwt

    signer = TokenSigner(Api(house_.shelf), SERVICE, lambda: house_.now)
    token = asyncio.run(signer.sign(pod_uid="p", scope="control"))
    return jwt.get_unverified_header(token)["kid"]
