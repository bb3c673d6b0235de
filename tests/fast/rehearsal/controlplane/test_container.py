"""The environment of a program in a simulated container."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.local.sandboxes.bundle import CannotStart
from agentenv.rehearsal.controlplane.pods import container

LISTENS = {"--metrics-bind-address": "127.0.0.1:1", "--health-probe-bind-address": "127.0.0.1:2"}
IN_CLUSTER = ("--leader-election-namespace={namespace}",)


def pod(**fields: Any) -> dict[str, Any]:
    about = {"name": "p", "namespace": "system", "uid": "u", "labels": {"app": "x"}}
    return {"metadata": about, "spec": {"nodeName": "n1", "containers": [{"name": "c", **fields}]}}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--extensions", "--leader-elect=true"], ["--extensions", "--leader-elect=true"]),
        (["--metrics-bind-address=:8080", "--extensions"], ["--extensions"]),
        (["--metrics-bind-address", ":8080", "--extensions"], ["--extensions"]),
        (["-health-probe-bind-address=:8081", "--extensions"], ["--extensions"]),
        (None, []),
    ],
)
def test_container_has_its_arguments_except_listen_addresses(args: list[str] | None, expected: list[str]) -> None:
    assert container.arguments(pod(args=args), {}, LISTENS, IN_CLUSTER) == [
        *expected,
        "--leader-election-namespace=system",
        "--metrics-bind-address=127.0.0.1:1",
        "--health-probe-bind-address=127.0.0.1:2",
    ]


def test_arguments_of_the_pod_are_not_repeated() -> None:
    arguments = container.arguments(pod(args=["-leader-election-namespace=other"]), {}, {}, IN_CLUSTER)
    assert arguments == ["-leader-election-namespace=other"]


def test_variables_are_expanded_in_their_order_and_in_arguments() -> None:
    env = [
        {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "BOTH", "value": "$(NAMESPACE)/$(NODE) $(LATER) $$(NODE)"},
        {"name": "LATER", "value": "1"},
    ]
    found = container.environment(pod(env=env), "10.1.2.3")
    assert found == {
        "NAMESPACE": "system",
        "NODE": "n1",
        "IP": "10.1.2.3",
        "APP": "x",
        "BOTH": "system/n1 $(LATER) $(NODE)",
        "LATER": "1",
    }
    assert container.arguments(pod(args=["--at=$(IP)"]), found, {}, ()) == ["--at=10.1.2.3"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"envFrom": [{"secretRef": {"name": "s"}}]}, "envFrom"),
        (
            {"env": [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            "S comes from secretKeyRef",
        ),
        ({"env": [{"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}]}, r"status\.hostIP"),
    ],
)
def test_unresolvable_argument_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(CannotStart, match=words):
        container.environment(pod(**fields), "10.1.2.3")
