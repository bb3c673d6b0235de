"""Reading of an event log, with a stub of the command line that writes it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentenv.rehearsal.stage.engine import Engine, EngineError, Event

SCRIPT = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --event-log) cat "$FAKE_EVENTS" > "$2"; shift;; esac
  shift
done
echo "what the engine printed"
exit "$FAKE_CODE"
"""


def step(op: str, urn: str, **more: Any) -> Event:
    return {"resOutputsEvent": {"metadata": {"op": op, "urn": urn, **more}}}


def diagnostic(severity: str, message: str) -> Event:
    return {"diagnosticEvent": {"severity": severity, "message": message}}


def engine(folder: Path, events: list[Event], code: int = 0, heard: list[str] | None = None) -> Engine:
    script = folder / "pulumi"
    script.write_text(SCRIPT, encoding="utf-8")
    script.chmod(0o755)
    (folder / "events").write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    (folder / "logs").mkdir()
    around = {**os.environ, "FAKE_EVENTS": str(folder / "events"), "FAKE_CODE": str(code)}
    on_event = None if heard is None else (lambda verb, event: heard.append(f"{verb} {next(iter(event))}"))
    return Engine(script, folder, "local", around, folder / "logs", on_event)


def test_changes_and_what_was_touched(tmp_path: Path) -> None:
    outcome = engine(
        tmp_path,
        [
            step("same", "urn:a"),
            step("update", "urn:b", detailedDiff={"tags.x": {}, "cidr": {}}),
            step("create", "urn:c"),
            {"summaryEvent": {"resourceChanges": {"same": 1, "update": 1, "create": 1}}},
        ],
    ).up()
    assert outcome.changed == 2
    assert outcome.resources == 3
    assert outcome.changed_resources() == [("update", "urn:b", ["cidr", "tags.x"]), ("create", "urn:c", [])]
    assert "what the engine printed" in outcome.output


def test_refresh_reports_the_changes_it_found(tmp_path: Path) -> None:
    events: list[Event] = [
        {"resourcePreEvent": {"metadata": {"op": "refresh", "urn": "urn:a"}}},
        step("same", "urn:a"),
        step("delete", "urn:b"),
    ]
    assert engine(tmp_path, events).refresh().changed_resources() == [("delete", "urn:b", [])]


def test_a_failure_carries_the_errors_and_no_warnings(tmp_path: Path) -> None:
    broken = engine(
        tmp_path, [diagnostic("warning", "using a plugin from PATH"), diagnostic("error", "  it said no\n")], code=4
    )
    with pytest.raises(EngineError, match="pulumi up ended with 4\nit said no") as failed:
        broken.up()
    assert failed.value.code == 4
    assert "using a plugin" not in str(failed.value)


def test_a_failure_without_a_diagnostic_shows_what_was_printed(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="what the engine printed"):
        engine(tmp_path, [], code=255).destroy()


def test_every_operation_has_logs_of_its_own(tmp_path: Path) -> None:
    runner = engine(tmp_path, [])
    runner.up()
    runner.refresh()
    assert sorted(path.name for path in runner.logs.iterdir()) == [
        "00-up.events", "00-up.log", "01-refresh.events", "01-refresh.log",
    ]  # fmt: skip


def test_a_half_written_last_line_is_left_out(tmp_path: Path) -> None:
    runner = engine(tmp_path, [step("create", "urn:a")])
    with (tmp_path / "events").open("a", encoding="utf-8") as log:
        log.write('{"resOutputsEvent": {"meta')
    assert [step["urn"] for step in runner.up().steps] == ["urn:a"]


def test_an_engine_on_a_full_disk_is_ended_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = engine(tmp_path, [])
    runner.pulumi.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    nothing_free = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: nothing_free)
    with pytest.raises(EngineError, match=f"the disk is full: no space left in {runner.logs}"):
        runner.up()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_engine_that_is_interrupted_while_it_starts_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(number)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            engine(tmp_path, []).up()
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert started[0].returncode == 0
