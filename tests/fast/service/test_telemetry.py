"""The service's metrics, and logs without secrets."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from prometheus_client import generate_latest

from agentenv.service.telemetry import logs, traces
from agentenv.service.telemetry.metrics import Metrics

# They have the form of tokens and keys, and are not valid.
TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1LTEifQ.c2lnbmF0dXJl"
KEY_ID = "ASIA" + "A" * 16


def recorded_metrics() -> Metrics:
    """Return metrics of which each has a value."""
    metrics = Metrics()
    metrics.claimed("standard", "warm", 0.04)
    metrics.pool_hit("standard")
    metrics.pool_miss("standard", "empty")
    metrics.workspaces({("standard", "running"): 2})
    metrics.suspended("standard", "idle")
    metrics.restarted("standard", "out-of-memory")
    metrics.missed_pod("kube-system")
    metrics.findings("audit", {"orphan": 1})
    metrics.volumes({"pvc-1": 4096})
    metrics.budget("notice")
    metrics.request("/v1/workspaces/{id}", "GET", 200, 0.01)
    metrics.ledger_rows(3)
    metrics.leader(leads=True)
    metrics.unreadable({"SandboxClaim": 1, "PersistentVolume": 0})
    with metrics.loop("idle"):
        pass
    with pytest.raises(ValueError, match="no"), metrics.loop("idle"):
        raise ValueError("no")
    return metrics


def test_every_metric_exists_and_no_label_holds_an_owner() -> None:
    metrics = recorded_metrics()
    exposition = generate_latest(metrics.registry).decode()
    for line in (
        'agentenv_claim_seconds_count{class="standard",outcome="warm"} 1.0',
        'agentenv_pool_hits_total{class="standard"} 1.0',
        'agentenv_pool_misses_total{class="standard",why="empty"} 1.0',
        'agentenv_workspaces{class="standard",state="running"} 2.0',
        'agentenv_suspends_total{because="idle",class="standard"} 1.0',
        'agentenv_restarts_total{class="standard",why="out-of-memory"} 1.0',
        'agentenv_budget_actions_total{action="notice"} 1.0',
        'agentenv_requests_total{code="200",method="GET",route="/v1/workspaces/{id}"} 1.0',
        'agentenv_request_seconds_count{method="GET",route="/v1/workspaces/{id}"} 1.0',
        "agentenv_ledger_rows_total 3.0",
        'agentenv_loop_seconds_count{loop="idle"} 2.0',
        'agentenv_loop_failures_total{loop="idle"} 1.0',
        "agentenv_leader 1.0",
        'agentenv_unreadable_objects{kind="SandboxClaim"} 1.0',
        'agentenv_unreadable_objects{kind="PersistentVolume"} 0.0',
    ):
        assert line in exposition, line
    labels = {name for family in metrics.registry.collect() for sample in family.samples for name in sample.labels}
    assert not labels & {"user", "owner", "workspace", "id"}


def test_a_class_without_workspaces_is_removed() -> None:
    metrics = Metrics()
    metrics.workspaces({("standard", "running"): 2, ("other", "running"): 1})
    metrics.workspaces({("standard", "running"): 1})
    assert 'class="other"' not in generate_latest(metrics.registry).decode()


@pytest.fixture
def log_stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.set_up("info", stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


def test_a_record_is_an_object_with_its_facts(log_stream: io.StringIO) -> None:
    logging.getLogger("service.x").info("it %s", "happened", extra={"facts": {"workspace": "w-1", "seconds": 1.5}})
    [line] = [json.loads(line) for line in log_stream.getvalue().splitlines()]
    assert line["message"] == "it happened"
    assert line["level"] == "info"
    assert line["facts"] == {"workspace": "w-1", "seconds": 1.5}


@pytest.mark.parametrize(
    "secret",
    [
        TOKEN,
        KEY_ID,
        "Authorization: Bearer abcdefghijklmnop",
        "https://sts.amazonaws.com/?X-Amz-Signature=0123456789abcdef",
        "aws_secret_access_key = wJalrXUtnFEMIK7MDENGbPxRfiCY",
    ],
)
def test_secrets_are_redacted(log_stream: io.StringIO, secret: str) -> None:
    part = secret.rsplit("=", maxsplit=1)[-1].rsplit(" ", maxsplit=1)[-1]
    log = logging.getLogger("service.x")
    log.info("got %s", secret)
    log.info("facts", extra={"facts": {"said": [secret], "token": part, "inner": {"password": part}}})
    log.error("failed", exc_info=RuntimeError(secret))
    logs.audit("done", authorization=part)
    assert part not in log_stream.getvalue()
    assert log_stream.getvalue().count(logs.REDACTED) >= 5


def test_names_and_counts_of_secrets_are_logged(log_stream: io.StringIO) -> None:
    logs.audit("kept", secret_name="git", token_count=3)
    [line] = [json.loads(line) for line in log_stream.getvalue().splitlines()]
    assert line["facts"] == {"secret_name": "git", "token_count": 3}


def test_the_audit_log_is_written_at_every_level() -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.set_up("error", stream)
    logging.getLogger("service.x").info("not logged")
    logs.audit("workspace deleted", workspace="w-1")
    root.handlers[:] = before
    root.setLevel(level)
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["workspace deleted"]


def test_traces_are_off_without_an_endpoint() -> None:
    traces.set_up(None, "pod-1")()
    with traces.tracer().start_as_current_span("claim") as span:
        assert isinstance(span, trace.NonRecordingSpan)
