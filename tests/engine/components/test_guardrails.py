"""Guardrails in an adopted cluster under the engine: what one environment retains there, the next one takes over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.engine import Engine
from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools.progress import terminal_progress

RETAINED = {
    "kubernetes validatingadmissionpolicies sandbox-guardrail-parameters",
    "kubernetes validatingadmissionpolicybindings sandbox-guardrail-parameters",
}
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/sandbox-guardrail-parameters"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage with a control plane of its own, because it retains objects."""
    with stage(terminal_progress(), under=tmp_path_factory.mktemp("runs"), cluster=ClusterOptions()) as opened:
        yield opened


def guardrails(served: Stage, environment: str) -> Engine:
    """Return the engine for the guardrails of an environment in the stage's cluster."""
    assert served.cluster is not None
    kubeconfig = served.cluster.plane.kubeconfig().read_text(encoding="utf-8")
    program = Path(__file__).parent / "adopted_guardrails"
    return served.program(program, environment, {"adopted:kubeconfig": kubeconfig})


def test_next_environment_adopts_retained_guardrails(served: Stage) -> None:
    assert served.cluster is not None
    before = set(served.leftovers())
    uids: set[str] = set()
    for environment in ("dev", "dev", "test"):
        engine = guardrails(served, environment)
        engine.preview()
        engine.up()
        assert engine.up().changed == 0
        assert engine.refresh().changed == 0
        uids.add(served.cluster.plane.client.get(POLICY)["metadata"]["uid"])
        engine.destroy()
        assert engine.state() == []
        assert set(served.leftovers()) == before | RETAINED
    assert len(uids) == 1


def test_second_environment_in_the_same_cluster_is_refused(served: Stage) -> None:
    assert served.cluster is not None
    first, second = guardrails(served, "dev"), guardrails(served, "test")
    first.up()
    owned = set(served.leftovers())
    retained = served.cluster.plane.client.get(POLICY)
    refused = second.up(check=False)
    assert refused.code != 0
    assert 'priorityclasses.scheduling.k8s.io "sandbox" already exists' in "\n".join(refused.diagnostics)
    assert served.cluster.plane.client.get(POLICY) == retained
    second.destroy()
    assert set(served.leftovers()) == owned
    assert first.up().changed == 0
    first.destroy()
