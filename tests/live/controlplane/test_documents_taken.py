"""The API server takes every object that is made of a class, field by field: what it does not know, it would drop.

A field that upstream never had is the most silent of mistakes: a definition prunes it, and what it was to say never
holds. So everything is asked for with the strictest reading, by the definitions of the release that runs.
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
from tests.live.conftest import World
from tests.live.controlplane.installed import manifests
from tests.live.controlplane.objects import PATIENCE

Object = dict[str, Any]
TRIED = {"dryRun": "All", "fieldValidation": "Strict"}


@pytest.fixture(scope="module")
def client(world: World, toolbox: Toolbox) -> Iterator[Client]:
    """With upstream's definitions, and the namespaces that things are tried in."""
    client = world.plane.client
    for thing in manifests(toolbox.path("agent-sandbox-manifests")):
        if thing["kind"] == "CustomResourceDefinition":
            client.apply(thing)
    namespaces = [
        class_objects.namespace
        for class_objects in OBJECTS.values()
        if client.find(client.path(class_objects.namespace)) is None
    ]
    try:
        for space in namespaces:
            client.request("POST", "/api/v1/namespaces", space, query={"fieldValidation": "Strict"})
        assert until(lambda: all(_known(client, document) for _, document in documents()), PATIENCE)
        yield client
    finally:
        for space in namespaces:
            client.delete(client.path(space))
        # Gone and not going: others of this server may want a room of that name.
        assert until(lambda: not any(client.find(client.path(space)) for space in namespaces), PATIENCE)


def documents() -> Iterator[tuple[str, Object]]:
    """Every object of every class, of a claim and of the seats."""
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
def test_no_field_is_one_that_upstream_never_had(client: Client, document: Object) -> None:
    taken = client.request("POST", client.path(document, named=False), document, query=TRIED)
    # Nothing of it was dropped or made into something else.
    assert _within(document["spec"], taken["spec"]) if "spec" in document else taken["kind"] == document["kind"]


def test_a_field_that_upstream_never_had_would_be_noticed(client: Client) -> None:
    (template,) = OBJECTS["standard"].templates
    wrong = {**template, "spec": {**template["spec"], "sharedNetwork": True}}
    with pytest.raises(ApiError, match=r'unknown field "spec\.sharedNetwork"'):
        client.request("POST", client.path(wrong, named=False), wrong, query=TRIED)


def _known(client: Client, document: Object) -> bool:
    """Return whether the server serves that kind already: a moment after its definition is there."""
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
