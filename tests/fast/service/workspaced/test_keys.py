"""The signing keys: none signs before every pod can have it, and none goes before its last token has expired."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from agentenv.service.workspaced.keys import (
    EXPIRY,
    ROTATE_AFTER,
    SPREAD,
    SigningKey,
    UnreadableKeysError,
    from_text,
    jwks,
    new_key,
    rotated,
    signing_key,
    to_text,
)
from agentenv.service.workspaced.tokens import LIFETIME

START = datetime(2026, 11, 19, 12, tzinfo=UTC)
STEP = timedelta(minutes=1)


def ids(keys: tuple[SigningKey, ...]) -> list[str]:
    return [key.id for key in keys]


def test_the_first_key_signs_at_once() -> None:
    assert signing_key((), START) is None
    (key,) = rotated((), START)
    assert signing_key((key,), START) is key
    assert rotated((key,), START) == (key,)


def test_over_days_each_key_is_published_long_before_it_signs_and_long_after() -> None:
    keys: tuple[SigningKey, ...] = ()
    published: dict[str, datetime] = {}
    last_signed: dict[str, datetime] = {}
    withdrawn: dict[str, datetime] = {}
    now = START
    while now < START + 5 * ROTATE_AFTER:
        rotation = rotated(keys, now)
        withdrawn |= dict.fromkeys(set(ids(keys)) - set(ids(rotation)), now)
        keys = tuple(key if key.published else replace(key, published=now) for key in rotation)
        published = {**dict.fromkeys(ids(keys), now), **published}
        signing = signing_key(keys, now)
        assert signing is not None
        last_signed[signing.id] = now
        assert signing.id == min(published) or published[signing.id] + SPREAD <= now
        assert len(keys) <= 2
        now += STEP
    assert len(published) >= 5
    assert len(withdrawn) >= 4
    for id_, at in withdrawn.items():
        assert at - last_signed[id_] >= LIFETIME
        assert at - last_signed[id_] <= EXPIRY + 2 * STEP


def test_a_key_that_is_not_in_every_class_never_signs_and_is_followed_by_no_other() -> None:
    (first,) = rotated((), START)
    first = replace(first, published=START)
    late = START + ROTATE_AFTER
    keys = rotated((first,), late)
    assert len(keys) == 2
    for days in range(1, 10):
        now = late + days * ROTATE_AFTER
        assert rotated(keys, now) == keys
        assert signing_key(keys, now) == first


def test_the_secret_and_the_public_document_hold_the_same_keys() -> None:
    keys = (replace(new_key(START), published=START + STEP), new_key(START + 2 * STEP))
    read = from_text(to_text(keys))
    assert [(key.id, key.created, key.published, key.public) for key in read] == [
        (key.id, key.created, key.published, key.public) for key in keys
    ]
    document = json.loads(jwks(keys))
    assert [row["kid"] for row in document["keys"]] == ids(keys)
    assert all(set(row) == {"kty", "crv", "use", "alg", "kid", "x"} for row in document["keys"])
    for key in keys:
        private = json.loads(to_text([key]))[0]["private"]
        assert private not in jwks(keys)
        assert private not in repr(key)


@pytest.mark.parametrize("text", ["", "{", "[{}]", "3", '[{"id": "a", "private": "QUFB", "created": "2026"}]', "[1]"])
def test_keys_that_cannot_be_read_are_refused_without_their_content(text: str) -> None:
    with pytest.raises(UnreadableKeysError) as caught:
        from_text(text)
    assert "QUFB" not in str(caught.value)
    assert caught.value.__cause__ is None
