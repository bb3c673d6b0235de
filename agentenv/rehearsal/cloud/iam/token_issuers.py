"""The published keys of token issuers, where the simulated STS finds them.

EKS serves a cluster's keys at its issuer's public address. That address is not available on loopback, so the process
that started a control plane publishes its keys here, under the name of its issuer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.store import Record, Store

_KIND: Final = "_sts.issuers"


class InvalidKeys(Exception):
    """The published keys are invalid; the message says why."""


def handle(store: Store, method: str, body: bytes) -> dict[str, Any]:
    """Handle the page of the issuers: POST publishes an issuer's keys, DELETE removes them, GET lists the issuers."""
    if method in {"POST", "DELETE"}:
        try:
            document = json.loads(body)
        except ValueError as error:
            raise InvalidKeys(f"Keys are published as JSON: {error}.") from None
        if not isinstance(document, dict) or not isinstance(document.get("issuer"), str):
            raise InvalidKeys("Keys are published as an object of issuer, a text, and keys, a list.")
        if method == "POST":
            _publish(store, document["issuer"], document.get("keys"))
        else:
            _records(store).pop(document["issuer"], None)
    return {issuer: [key["kid"] for key in record["keys"]] for issuer, record in _records(store).items()}


def issuer_keys(store: Store, issuer: str) -> list[dict[str, Any]] | None:
    """Return an issuer's keys; None without any, as for an issuer that does not answer."""
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
