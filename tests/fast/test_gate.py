"""The gate itself: it fails on a failure, on a group without a test, and in CI on anything that did not run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

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
    assert gate.conclude([result], 1.0) == (1 if ci else 0)
    said = capsys.readouterr().out
    assert "test_two: needs the moon" in said
    assert said.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"


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
