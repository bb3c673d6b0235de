"""The API server accepts every object of a class with every field, because it prunes unknown fields silently.

All objects are validated strictly, with the definitions of the installed release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.core.workspaces.claims import claim
from agentenv.core.workspaces.seats import claim as seat_claim
from agentenv.core.workspaces.seats import sandbox as seat_sandbox
from agentenv.core.workspaces.seats import seat_plans
from agentenv.core.workspaces.seats import volume as seat_volume
from agentenv.rehearsal.controlplane.client import ApiError, Client, until
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests.fast.core.classes.class_samples import OBJECTS, SETTINGS
from tests.live.conftest import LiveCluster
from tests.live.controlplane.installed import manifests
from tests.live.controlplane.objects import TIMEOUT

Object = dict[str, Any]
TRIED = {"dryRun": "All", "fieldValidation": "Strict"}


@pytest.fixture(scope="module")
def client(live: LiveCluster, toolbox: Toolbox) -> Iterator[Client]:
    """Install upstream's definitions, and create the namespaces of the objects; return the client."""
    client = live.plane.client
    for obj in manifests(toolbox.path("agent-sandbox-manifests")):
        if obj["kind"] == "CustomResourceDefinition":
            client.apply(obj)
    namespaces = [
        class_objects.namespace
        for class_objects in OBJECTS.values()
        if client.find(client.path(class_objects.namespace)) is None
    ]
    try:
        for namespace in namespaces:
            client.request("POST", "/api/v1/namespaces", namespace, query={"fieldValidation": "Strict"})
        assert until(lambda: all(_known(client, document) for _, document in documents()), TIMEOUT)
        yield client
    finally:
        for namespace in namespaces:
            client.delete(client.path(namespace))
        # Wait for the deletion, because other tests create namespaces of that name.
        assert until(lambda: not any(client.find(client.path(namespace)) for namespace in namespaces), TIMEOUT)


def documents() -> Iterator[tuple[str, Object]]:
    """Return every object of every class, of a claim and of the seats."""
    for name, class_objects in OBJECTS.items():
        for document in class_objects.documents():
            if document["kind"] != "Namespace":
                yield name, document
        for pool in class_objects.pools:
            yield name, claim(name, pool["metadata"]["name"], "taken", owner="u-1", workspace="w-1", task="t-1")
    for seat in seat_plans(SETTINGS):
        yield seat.name, seat_volume(seat, "fs-0123456789abcdef0::fsap-0123456789abcdef0")
        yield seat.name, seat_claim(seat)
        yield seat.name, seat_sandbox(seat, OBJECTS[seat.sandbox_class].templates[0]["spec"])


EVERY = [
    pytest.param(document, id=f"{name}-{document['kind']}-{at}") for at, (name, document) in enumerate(documents())
]


@pytest.mark.parametrize("document", EVERY)
def test_every_field_exists_upstream(client: Client, document: Object) -> None:
    taken = client.request("POST", client.path(document, named=False), document, query=TRIED)
    # No field was dropped or changed
    assert _within(document["spec"], taken["spec"]) if "spec" in document else taken["kind"] == document["kind"]


def test_unknown_field_is_noticed(client: Client) -> None:
    (template,) = OBJECTS["standard"].templates
    wrong = {**template, "spec": {**template["spec"], "sharedNetwork": True}}
    with pytest.raises(ApiError, match=r'unknown field "spec\.sharedNetwork"'):
        client.request("POST", client.path(wrong, named=False), wrong, query=TRIED)


def _known(client: Client, document: Object) -> bool:
    """Return whether the server serves a kind, which it does a moment after its definition."""
    try:
        return client.find(client.path(document, named=False)) is not None
    except ApiError:
        return False


def _within(sent: Any, stored: Any) -> bool:
    """Return whether everything that was sent is stored; the server adds defaults, and drops empty values."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        return all(not value or (key in stored and _within(value, stored[key])) for key, value in sent.items())
    if isinstance(sent, list) and isinstance(stored, list):
        return len(sent) == len(stored) and all(map(_within, sent, stored))
    return sent == stored
