"""Guardrails that were taken away come back to a server that never stopped, and know the classes of today."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import CONSTRAINTS
from agentenv.core.guardrails import anchor_documents
from agentenv.core.guardrails.guardrail import Policy, Rule, Watch
from agentenv.rehearsal.controlplane.client import ApiError, Client, until
from tests.live.conftest import World
from tests.live.controlplane.objects import PATIENCE, namespace

Object = dict[str, Any]

# Named apart from the real ones, which may be in force for another test of this server.
POLICY = Policy(
    name="tried-again",
    about="LimitRanges with a word that is not their class's.",
    watches=(Watch("", ("limitranges",)),),
    by_class=True,
    rules=(
        Rule(
            "tried-again",
            "To see that parameters are found.",
            "object.metadata.?labels[?'word'].orValue('') == string(params.data.word)",
            "the word is that of the class",
        ),
    ),
)


@pytest.fixture
def admin(world: World) -> Iterator[Client]:
    client = world.plane.client
    for document in anchor_documents():
        client.apply(document)
    yield client
    _away(client)


def test_a_class_that_is_younger_than_both_is_known_to_the_second(admin: Client) -> None:
    for name in ("again-first", "again-second"):
        for document in (POLICY.document(), *POLICY.bindings()):
            admin.apply(document)
        namespace(admin, name, **{CLASS_LABEL: name})
        assert until(lambda name=name: _answer(admin, name, "other") == "refused", PATIENCE), name
        # The class's parameters come a moment after the class; without them everything is refused.
        assert until(lambda name=name: _answer(admin, name, name) == "taken", PATIENCE), name
        _away(admin)
        assert until(lambda name=name: _answer(admin, name, "other") == "taken", PATIENCE), name
        admin.delete(f"/api/v1/namespaces/{name}")


def _answer(admin: Client, space: str, word: str) -> str:
    """Return the answer to a LimitRange with that word in a class whose word is its name."""
    constraints: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONSTRAINTS, "namespace": space},
        "data": {"word": space},
    }
    about = {"name": "asked", "namespace": space, "labels": {"word": word}}
    limits = [{"type": "Container", "max": {"memory": "1Gi"}}]
    limit_range: Object = {"apiVersion": "v1", "kind": "LimitRange", "metadata": about, "spec": {"limits": limits}}
    try:
        if admin.find(admin.path(constraints)) is None:
            admin.apply(constraints)
        admin.request("POST", admin.path(limit_range, named=False), limit_range, query={"dryRun": "All"})
    except ApiError as error:
        if "[tried-again]" in str(error):
            return "refused"
        if "no params found" in str(error):
            return "unknown"
        raise
    return "taken"


def _away(admin: Client) -> None:
    for document in (*POLICY.bindings(), POLICY.document()):
        admin.delete(admin.path(document))
