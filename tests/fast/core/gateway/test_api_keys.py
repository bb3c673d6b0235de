"""API keys have the form that E2B's clients accept, and are compared by their hash."""

from __future__ import annotations

import re

import pytest

from agentenv.core.gateway.api_keys import digest, key_id, matches, new_key


def test_keys_differ_and_have_the_form_of_e2b() -> None:
    keys = {new_key() for _ in range(100)}
    assert len({key_id(key) for key in keys}) == 100
    assert all(re.fullmatch(r"e2b_[0-9a-f]{52}", key) for key in keys)


@pytest.mark.parametrize(
    "text", ["", "e2b_", "e2b_" + "g" * 52, "e2b_" + "a" * 51, "E2B_" + "a" * 52, "e2b_" + "a" * 53]
)
def test_other_texts_are_no_keys(text: str) -> None:
    assert key_id(text) is None


def test_only_the_whole_key_has_its_hash() -> None:
    key = new_key()
    stored = digest(key)
    assert matches(key, stored)
    assert key not in stored
    for other in (key[:-1], key + "0", new_key(), "", "\ud800"):
        assert not matches(other, stored)
