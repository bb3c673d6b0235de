"""Guardrails that are deleted and created again in a running server have the parameters of current classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import CONSTRAINTS
from agentenv.core.guardrails import anchor_documents
from agentenv.core.guardrails.guardrail import Policy, Rule, Watch
from agentenv.rehearsal.controlplane.client import ApiError, Client, until
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT, create_namespace

Object = dict[str, Any]

# Not the names of the real ones, which may be in force for another test of this server.
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
def admin(live: LiveCluster) -> Iterator[Client]:
    client = live.plane.client
    for document in anchor_documents():
        client.apply(document)
    yield client
    _delete_guardrails(client)


def test_recreated_guardrails_know_a_new_class(admin: Client) -> None:
    for name in ("again-first", "again-second"):
        for document in (POLICY.document(), *POLICY.bindings()):
            admin.apply(document)
        create_namespace(admin, name, **{CLASS_LABEL: name})
        assert until(lambda name=name: _answer(admin, name, "other") == "refused", TIMEOUT), name
        # The parameters of the class follow the class; without them everything is refused.
        assert until(lambda name=name: _answer(admin, name, name) == "taken", TIMEOUT), name
        _delete_guardrails(admin)
        assert until(lambda name=name: _answer(admin, name, "other") == "taken", TIMEOUT), name
        admin.delete(f"/api/v1/namespaces/{name}")


def _answer(admin: Client, namespace: str, word: str) -> str:
    """Return the response to a LimitRange with a word in a class whose parameter is its name."""
    constraints: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONSTRAINTS, "namespace": namespace},
        "data": {"word": namespace},
    }
    about = {"name": "asked", "namespace": namespace, "labels": {"word": word}}
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


def _delete_guardrails(admin: Client) -> None:
    for document in (*POLICY.bindings(), POLICY.document()):
        admin.delete(admin.path(document))
