"""Passes over a cluster's objects: killed anywhere or run twice at once, they write the same rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from agentenv.core.ledger.rows import NO_POD, Row
from agentenv.service.kube.client import VOLUMES
from agentenv.service.ledger.read_holdings import holdings
from agentenv.service.ledger.record import LedgerRecorder, listed
from agentenv.service.ledger.table import Ledger
from agentenv.service.ledger.usage import Meter
from tests.fast.service.fake_api_server import Api, FakeApiServer, Killed, run
from tests.fast.service.ledger import documents
from tests.fast.service.ledger.conftest import TABLE

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Timed(Ledger):
    """A ledger with a clock that a test sets."""

    at = NOON

    def now(self) -> datetime:
        return self.at


@pytest.fixture
def api() -> FakeApiServer:
    return FakeApiServer()


@pytest.fixture
def timed(table: Any) -> Timed:
    return Timed(table, TABLE)


def rows_of(ledger: Ledger) -> list[Row]:
    return sorted(ledger.all_rows(NOON - 900 * HOUR, NOON + 900 * HOUR), key=lambda row: (row.began, row.pod))


def test_a_resized_workspace_pays_for_each_size_as_long_as_it_had_it(api: FakeApiServer, timed: Timed) -> None:
    small = {"until": "2026-11-17T12:31:00.000Z", "cpu": "50m", "memory": "256Mi"}
    older = {"until": "2026-11-17T11:00:00.000Z", "cpu": "64", "memory": "64Gi"}  # of a pod before
    annotations = {"sandbox.users.io/resizes": json.dumps([older, small])}
    documents.claim(api, **annotations)
    recorder = LedgerRecorder(Api(api), timed, Meter())
    timed.at = NOON + HOUR
    run(recorder.record_all)
    (row,) = rows_of(timed)
    # Claimed at 12:01: half an hour of 50m, then 29 minutes of 200m.
    assert row.cpu_seconds == Decimal("0.05") * 1800 + Decimal("0.2") * 1740
    assert row.memory_gib_hours == pytest.approx(Decimal("0.25") / 2 + Decimal(1) * 29 / 60, abs=Decimal("0.00001"))


def test_a_day_of_a_workspace(api: FakeApiServer, timed: Timed) -> None:
    """Claimed warm, suspended, resumed, and deleted with its data retained: each is a row."""
    documents.claim(api)
    recorder = LedgerRecorder(Api(api), timed, Meter())
    timed.at = NOON + HOUR
    run(recorder.record_all)
    documents.suspend(api)
    timed.at = NOON + 2.5 * HOUR
    run(recorder.record_all)
    box = api.objects[documents.SANDBOXES, documents.NAMESPACE, "box-w-1"]
    box["spec"]["operatingMode"], box["status"] = "Running", {}
    documents.pod(api, uid="second", placed="2026-11-17T16:00:00Z")
    timed.at = NOON + 5 * HOUR
    run(recorder.record_all)
    documents.delete(api, at="2026-11-17T18:00:00Z")
    timed.at = NOON + 7 * HOUR
    run(recorder.record_all)
    first, asleep, second, data = rows_of(timed)
    minute = timedelta(minutes=1)
    assert [(row.pod, row.began, row.ended, row.closed) for row in (first, asleep, second, data)] == [
        ("pod-w-1", NOON + minute, NOON + 2 * HOUR, True),
        (NO_POD, NOON + 2 * HOUR, NOON + 4 * HOUR, True),
        ("second", NOON + 4 * HOUR, NOON + 6 * HOUR, True),
        (NO_POD, NOON + 6 * HOUR, NOON + 7 * HOUR, False),
    ]
    assert data.claim == "volume:pv-w-1"
    assert {row.workspace for row in rows_of(timed)} == {"w-1"}
    # Two tenths of a core and a GiB, with the overhead; five GiB of files all the time.
    assert (first.cpu_seconds, first.source) == (Decimal("0.2") * 7140, "requests/requested")
    assert second.memory_gib_hours == Decimal(2)
    assert (asleep.cpu_seconds, asleep.storage_gib_hours) == (0, 10)
    assert data.storage_gib_hours == 5


def test_the_measured_size_counts_instead_of_the_requested_one(api: FakeApiServer, timed: Timed) -> None:
    documents.claim(api)
    notes = {"sandbox.users.io/measured-bytes": str(2**29)}
    api.objects[VOLUMES, "", "pv-w-1"]["metadata"]["annotations"] = notes
    timed.at = NOON + HOUR + timedelta(minutes=1)
    run(LedgerRecorder(Api(api), timed, Meter()).record_all)
    (row,) = rows_of(timed)
    assert (row.storage_gib_hours, row.source) == (Decimal("0.5"), "requests/metered")


def test_warm_sandboxes_and_unscheduled_pods_have_no_owner(api: FakeApiServer, timed: Timed) -> None:
    documents.claim(api)
    waiting = api.objects[documents.PODS, documents.NAMESPACE, "box-w-1"]
    waiting["status"] = {"phase": "Pending"}
    assert [row.pods for row in run(holdings, listed(Api(api)))] == [()]
    api.objects[documents.CLAIMS, documents.NAMESPACE, "w-1"]["spec"] = {}
    assert run(holdings, listed(Api(api))) == []


def test_the_size_that_fargate_bills_counts(api: FakeApiServer) -> None:
    documents.claim(api)
    pod = api.objects[documents.PODS, documents.NAMESPACE, "box-w-1"]
    pod["metadata"]["annotations"] = {"CapacityProvisioned": "0.25vCPU 0.5GB"}
    (held,) = run(holdings, listed(Api(api)))
    assert [(row.cores, row.memory_gib) for row in held.pods] == [(Decimal("0.25"), Decimal("0.5"))]


def test_a_settled_claim_loses_nothing_when_it_is_deleted(api: FakeApiServer, timed: Timed) -> None:
    documents.claim(api)
    recorder = LedgerRecorder(Api(api), timed, Meter())
    timed.at = NOON + HOUR
    run(recorder.record_all)
    timed.at += timedelta(minutes=4)
    run(recorder.settle, documents.NAMESPACE, "w-1")
    documents.delete(api, at=None)
    api.objects.pop((VOLUMES, "", "pv-w-1"))
    timed.at += HOUR
    run(LedgerRecorder(Api(api), timed, Meter()).record_all)
    (row,) = rows_of(timed)
    assert (row.ended, row.closed) == (NOON + HOUR + timedelta(minutes=4), True)
    nothing = run(recorder.settle, documents.NAMESPACE, "nobody")
    assert nothing is not None
    assert nothing.due == 0


@pytest.mark.parametrize(
    "pod", ["runs", "gone", "finished", "gone with its sandbox", "gone before the claim is listed"]
)
def test_a_claim_that_is_being_deleted_is_charged_until_its_deletion_was_recorded(
    api: FakeApiServer, timed: Timed, pod: str
) -> None:
    """A pass may see any step of a deletion; the data is charged from the same timestamp on."""
    documents.claim(api)
    recorder = LedgerRecorder(Api(api), timed, Meter())
    timed.at = NOON + HOUR
    run(recorder.settle, documents.NAMESPACE, "w-1")
    deleted = NOON + HOUR + timedelta(seconds=1)
    documents.start_deletion(api, at="2026-11-17T13:00:01.216Z")
    if pod.startswith("gone"):
        api.objects.pop((documents.PODS, documents.NAMESPACE, "box-w-1"))
    if pod == "gone with its sandbox":
        api.objects.pop((documents.SANDBOXES, documents.NAMESPACE, "box-w-1"))
    if pod == "gone before the claim is listed":
        del api.objects[documents.CLAIMS, documents.NAMESPACE, "w-1"]["metadata"]["deletionTimestamp"]
    if pod == "finished":
        status = api.objects[documents.PODS, documents.NAMESPACE, "box-w-1"]["status"]
        ended = {"terminated": {"finishedAt": "2026-11-17T13:00:09Z"}}
        status |= {"phase": "Succeeded", "containerStatuses": [{"state": ended}]}
    timed.at += timedelta(seconds=20)
    run(recorder.settle, documents.NAMESPACE, "w-1")
    run(recorder.record_all)
    if pod in {"runs", "gone", "finished"}:
        assert [(row.ended, row.closed) for row in rows_of(timed)] == [(deleted, True)]
    documents.delete(api, at="2026-11-17T13:00:01.216Z")
    timed.at += HOUR
    run(recorder.record_all)
    workspace, data = rows_of(timed)
    assert (workspace.ended, workspace.closed) == (deleted, True)
    assert (data.began, data.claim) == (deleted, "volume:pv-w-1")


def test_the_record_of_an_earlier_deletion_ends_no_claim(api: FakeApiServer, timed: Timed) -> None:
    """A restored workspace still has it for a moment."""
    documents.claim(api)
    documents.start_deletion(api, at="2026-11-17T12:00:30Z")
    timed.at = NOON + HOUR
    run(LedgerRecorder(Api(api), timed, Meter()).record_all)
    assert [(row.ended, row.closed) for row in rows_of(timed)] == [(timed.at, False)]


def test_a_deletion_that_was_not_finished_ends_no_claim(api: FakeApiServer, timed: Timed) -> None:
    documents.claim(api)
    documents.start_deletion(api, at="2026-11-17T12:30:00Z")
    del api.objects[documents.CLAIMS, documents.NAMESPACE, "w-1"]["metadata"]["deletionTimestamp"]
    timed.at = NOON + HOUR
    run(LedgerRecorder(Api(api), timed, Meter()).record_all)
    assert [(row.ended, row.closed) for row in rows_of(timed)] == [(timed.at, False)]


def test_a_volume_with_an_invalid_annotation_does_not_stop_the_pass(api: FakeApiServer, timed: Timed) -> None:
    for number in range(2):
        documents.claim(api, f"u-{number}", f"w-{number}")
    documents.delete(api, "w-0", "yesterday")
    timed.at = NOON + HOUR
    run(LedgerRecorder(Api(api), timed, Meter()).record_all)
    assert [row.workspace for row in rows_of(timed)] == ["w-1"]


def test_a_row_that_fails_does_not_stop_the_pass(api: FakeApiServer, timed: Timed) -> None:
    class Absurd:
        def used(self, row: Row) -> tuple[Decimal, Decimal, Decimal] | None:
            much = Decimal("1e60")
            return (much, much, much) if row.workspace == "w-0" else None

    for number in range(2):
        documents.claim(api, f"u-{number}", f"w-{number}")
    timed.at = NOON + HOUR
    done = run(LedgerRecorder(Api(api), timed, Meter(Absurd())).record_all)
    assert [row.workspace for row in rows_of(timed)] == ["w-1"]
    assert (done.due, done.rows_written, len(done.failures)) == (2, 1, 1)
    assert done.failures[0].startswith("u-0 claim-w-0#pod-w-0#")
    # The next pass writes it.
    assert run(LedgerRecorder(Api(api), timed, Meter()).record_all).rows_written == 1


def test_an_invalid_billed_size_is_ignored(api: FakeApiServer) -> None:
    documents.claim(api)
    pod = api.objects[documents.PODS, documents.NAMESPACE, "box-w-1"]
    (parameters,) = run(holdings, listed(Api(api)))
    for size in ("large", "0.25vCPU", "NaNvCPU 1GB", "-1vCPU 1GB"):
        pod["metadata"]["annotations"] = {"CapacityProvisioned": size}
        assert run(holdings, listed(Api(api))) == [parameters]


def test_settling_does_not_fail_where_the_ledger_is_unavailable(api: FakeApiServer, table: Any) -> None:
    documents.claim(api)
    assert run(LedgerRecorder(Api(api), Timed(table, "another"), Meter()).settle, documents.NAMESPACE, "w-1") is None


class Dying:
    """A client that simulates a kill before or after one of its calls."""

    def __init__(self, inner: Any, at: int, *, after: bool) -> None:
        self._inner, self._at, self._after, self._calls = inner, at, after, 0

    def __getattr__(self, name: str) -> Any:
        def call(**parameters: Any) -> Any:
            self._calls += 1
            if self._calls == self._at and not self._after:
                raise Killed
            answer = getattr(self._inner, name)(**parameters)
            if self._calls == self._at:
                raise Killed
            return answer

        return call


def course(api: FakeApiServer, ledger: Timed, keeper_of: Any) -> None:
    """Run two days of three workspaces, with several passes."""
    for number in range(3):
        documents.claim(api, f"u-{number}", f"w-{number}")
    for step in range(5):
        ledger.at = NOON + (1 + step * 9) * HOUR
        if step == 2:
            documents.suspend(api, "w-1", "2026-11-18T06:00:00Z")
        if step == 3:
            documents.delete(api, "w-2", "2026-11-18T12:00:00Z")
        run(keeper_of(step).record_all)


def test_the_next_pass_completes_one_that_was_killed_at_any_call(table: Any, timed: Timed) -> None:
    """The rows are those of a pass that was not killed."""
    whole = FakeApiServer()
    course(whole, timed, lambda _: LedgerRecorder(Api(whole), timed, Meter()))
    expected = rows_of(timed)
    assert len(expected) == 11
    calls = 0
    for at in range(1, 7):
        for after in (False, True):
            for item in table.scan(TableName=TABLE)["Items"]:
                table.delete_item(TableName=TABLE, Key={"owner": item["owner"], "row": item["row"]})
            api = FakeApiServer()
            dying = Timed(Dying(table, at, after=after), TABLE)

            def keeper_of(step: int, api: FakeApiServer = api, dying: Timed = dying) -> LedgerRecorder:
                # A pass in the middle is killed; then another replica repeats the step.
                if step == 3:
                    dying.at = timed.at
                    try:
                        run(LedgerRecorder(Api(api), dying, Meter()).record_all)
                    except Killed:
                        nonlocal calls
                        calls += 1
                return LedgerRecorder(Api(api), timed, Meter())

            course(api, timed, keeper_of)
            assert rows_of(timed) == expected, f"killed at call {at}"
    assert calls == 12, "a pass has fewer calls than were tried"


def test_two_replicas_at_once_write_what_one_writes(table: Any, timed: Timed) -> None:
    """Another replica's pass runs at every call of a pass."""
    api = FakeApiServer()
    other = Timed(table, TABLE)

    crossing: Any = None

    class Crossed:
        def __getattr__(self, name: str) -> Any:
            def call(**parameters: Any) -> Any:
                nonlocal crossing
                if crossing is not None:
                    mine, crossing = crossing, None
                    mine()
                    crossing = mine
                return getattr(table, name)(**parameters)

            return call

    row = Timed(Crossed(), TABLE)

    def keeper_of(_: int) -> LedgerRecorder:
        nonlocal crossing
        row.at = timed.at
        # Its clock is a little behind.
        other.at = timed.at - timedelta(seconds=20)
        crossing = lambda: run(LedgerRecorder(Api(api), other, Meter()).record_all)  # noqa: E731
        return LedgerRecorder(Api(api), row, Meter())

    course(api, timed, keeper_of)
    crossing = None
    # No time of a claim is in two rows.
    for claim in {row.claim for row in rows_of(timed)}:
        rows = [row for row in rows_of(timed) if row.claim == claim]
        assert all(earlier.ended <= later.began for earlier, later in pairwise(rows))
    awake = sum((row.seconds for row in rows_of(timed) if row.claim == "claim-w-0"), Decimal(0))
    # Rows that the other replica has just written are not written again.
    assert awake == (36 * 60 + 59) * 60 - 20


def test_a_killed_process_leaves_a_consistent_ledger(timed: Timed) -> None:
    """`kill -9` before each write of a pass."""
    program = textwrap.dedent(
        """
        import asyncio, os, signal, sys
        from moto import mock_aws
        from agentenv.core.ledger.table import create_table
        from agentenv.service.aws import clients as aws
        from agentenv.service.ledger.record import LedgerRecorder
        from agentenv.service.ledger.usage import Meter
        from tests.fast.service.ledger import documents
        from tests.fast.service.ledger.test_record import NOON, HOUR, Timed, rows_of
        from tests.fast.service.fake_api_server import Api, FakeApiServer
        os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
        with mock_aws():
            table = aws.client("dynamodb", "us-east-1")
            table.create_table(**create_table("ledger"))
            api, ledger = FakeApiServer(), Timed(table, "ledger")
            for number in range(3):
                documents.claim(api, f"u-{number}", f"w-{number}")
            ledger.at = NOON + 30 * HOUR
            for stop in range(1, 8):
                child = os.fork()
                if child == 0:
                    calls = 0
                    class Ending:
                        def __getattr__(self, name):
                            def call(**parameters):
                                global calls
                                calls += 1
                                if calls == stop:
                                    os.kill(os.getpid(), signal.SIGKILL)
                                return getattr(table, name)(**parameters)
                            return call
                    dying = Timed(Ending(), "ledger")
                    dying.at = ledger.at
                    asyncio.run(LedgerRecorder(Api(api), dying, Meter()).record_all())
                    os._exit(0)
                assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
            asyncio.run(LedgerRecorder(Api(api), ledger, Meter()).record_all())
            rows = rows_of(ledger)
            assert len(rows) == 6, rows
            assert sum(row.seconds for row in rows) == 3 * (30 * 3600 - 60)
        """
    )
    # Each process would load AWS's policies, if a simulated AWS in this one has set its variables.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MOTO_")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
