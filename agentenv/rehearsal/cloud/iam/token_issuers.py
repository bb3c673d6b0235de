"""The keys of those who sign tokens, where STS looks them up.

EKS serves a cluster's keys at its issuer's public address. That address cannot be had on loopback, so whoever raised a
control plane publishes its keys here, under the name of its issuer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.store import Record, Store

_KIND: Final = "_sts.issuers"


class InvalidKeys(Exception):
    """What is wrong with what was to be published."""


def handle(store: Store, method: str, body: bytes) -> dict[str, Any]:
    """The page of the issuers: POST publishes the keys of one, DELETE withdraws them, GET tells who has some."""
    if method in {"POST", "DELETE"}:
        try:
            said = json.loads(body)
        except ValueError as error:
            raise InvalidKeys(f"Keys are published as JSON: {error}.") from None
        if not isinstance(said, dict) or not isinstance(said.get("issuer"), str):
            raise InvalidKeys("Keys are published as an object of issuer, a text, and keys, a list.")
        if method == "POST":
            _publish(store, said["issuer"], said.get("keys"))
        else:
            _records(store).pop(said["issuer"], None)
    return {issuer: [key["kid"] for key in found["keys"]] for issuer, found in _records(store).items()}


def keys_of(store: Store, issuer: str) -> list[dict[str, Any]] | None:
    """An issuer's keys; None where nobody published any, as with an issuer that does not answer."""
    record = _records(store).get(issuer)
    return record["keys"] if record else None


def _publish(store: Store, issuer: str, keys: Any) -> None:
    if urlsplit(issuer).scheme != "https":
        raise InvalidKeys(f"issuer is '{issuer}', and has to be an https address.")
    if not isinstance(keys, list) or not keys or not all(isinstance(key, dict) and key.get("kid") for key in keys):
        raise InvalidKeys("keys is a list of keys as an issuer publishes them, each with its kid.")
    _records(store)[issuer] = {"keys": keys}


def _records(store: Store) -> dict[str, Record]:
    return store.records(_KIND, "", "")
