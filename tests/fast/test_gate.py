"""The gate itself: it fails on a failure, on a group without a test, and in CI on anything that did not run or was not
asked."""

from __future__ import annotations

import functools
import sys
import threading
from pathlib import Path

import pytest

from agentenv.rehearsal import tools
from tests import gate


def group(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> gate.Result:
    (folder / "tests" / "some").mkdir(parents=True)
    (folder / "tests" / "some" / "test_it.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(gate, "ROOT", folder)
    return gate.run_group(gate.Group("some", 0))


PASSES = "def test_one():\n    assert True\n"
SKIPS = "import pytest\n\n@pytest.mark.skip(reason='needs the moon')\ndef test_two():\n    assert True\n"


@pytest.mark.parametrize("ci", ["", "true"])
def test_what_did_not_run_is_told_and_fails_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str
) -> None:
    monkeypatch.setenv("CI", ci)
    result = group(tmp_path, monkeypatch, PASSES + SKIPS)
    assert result.counts == {"passed": 1, "skipped": 1}
    assert result.ok is not bool(ci)
    assert gate.print_summary([result], 1.0) == (1 if ci else 0)
    said = capsys.readouterr().out
    assert "test_two: needs the moon" in said
    assert said.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"


@pytest.mark.parametrize(("reason", "ok"), [("needs THE_MOON: a folder", True), ("needs the sun", False)])
def test_only_what_needs_an_absent_variable_may_be_skipped_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reason: str, ok: bool
) -> None:
    monkeypatch.setenv("CI", "true")
    (tmp_path / "tests" / "some").mkdir(parents=True)
    (tmp_path / "tests" / "some" / "test_it.py").write_text(PASSES + SKIPS.replace("needs the moon", reason))
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    result = gate.run_group(gate.Group("some", 0), ("THE_MOON",))
    assert result.ok is ok
    assert gate.print_summary([result], 1.0, ("THE_MOON",)) == (0 if ok else 1)
    assert f"not run ({'allowed' if ok else 'a failure, because CI is set'}):" in capsys.readouterr().out


def test_a_failing_test_fails_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = group(tmp_path, monkeypatch, PASSES + "def test_three():\n    assert not True\n")
    assert (result.ok, result.counts) == (False, {"passed": 1, "failed": 1})


def test_a_group_whose_tests_all_vanished_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not group(tmp_path, monkeypatch, "# nothing is collected from here\n").ok


def test_a_check_is_judged_by_its_exit_code() -> None:
    program = Path(sys.executable).name
    good = gate.run_check(gate.Check("good", (program, "-c", "pass")))
    bad = gate.run_check(gate.Check("bad", (program, "-c", "raise SystemExit('it said no')")))
    assert (good.ok, bad.ok) == (True, False)
    assert "it said no" in bad.output


def test_the_same_sources_are_checked_once_unless_ci_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".venv", "model"):
        (tmp_path / name).mkdir()
    source, runs = tmp_path / "model" / "one.py", tmp_path / "runs"
    source.write_text("ONE = 1\n", encoding="utf-8")
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    monkeypatch.delenv("CI", raising=False)

    def asked(code: str = "") -> tuple[bool, str, int]:
        told = f"open({str(runs)!r}, 'a').write('x'); {code}"
        ended = gate.run_check(gate.Check("kinds", (Path(sys.executable).name, "-c", told), cached=True))
        return ended.ok, ended.summary, runs.stat().st_size

    assert asked("raise SystemExit(1)") == (False, "", 1)
    assert asked() == (True, "", 2)  # a failure is not remembered
    assert asked() == (True, "unchanged since it passed", 2)
    monkeypatch.setenv("CI", "true")
    assert asked() == (True, "", 3)
    monkeypatch.delenv("CI")
    source.write_text("ONE = 2\n", encoding="utf-8")
    # What changed while it was checked is checked again.
    assert asked(f"open({str(source)!r}, 'a').write('TWO = 2')") == (True, "", 4)
    assert asked() == (True, "", 5)
    source.rename(source.with_name("two.py"))
    assert asked() == (True, "", 6)


def test_lanes_go_side_by_side_and_results_stand_in_their_order() -> None:
    both = threading.Barrier(2, timeout=30)

    def part(name: str) -> gate.Result:
        both.wait()
        return gate.Result(name, True, 0.0, "", "")

    lanes = [[functools.partial(part, name) for name in lane] for lane in (("one", "two"), ("three", "four"))]
    assert [result.name for result in gate.side_by_side(lanes)] == ["one", "two", "three", "four"]


def test_a_tool_that_cannot_be_had_ends_the_gate_before_its_tests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> None:
        raise tools.ToolError("there is no Go compiler")

    monkeypatch.setattr(tools, "ensure", refused)
    monkeypatch.setattr(sys, "argv", ["gate", "--group", "engine"])
    assert gate.main() == 1
    said = capsys.readouterr().out
    assert "there is no Go compiler" in said
    assert "failed: tools" in said
