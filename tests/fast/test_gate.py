"""The gate fails on a failure, on a group without tests, and in CI on any test that was skipped without permission."""

from __future__ import annotations

import functools
import sys
import threading
from pathlib import Path

import pytest

from agentenv.rehearsal import tools
from tests import gate
from tests.live.conftest import LONG


@pytest.fixture(autouse=True)
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs within these tests load no plugin but that of the workers, as all of them take longer than the tests."""
    monkeypatch.setitem(gate.ENVIRONMENT, "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setitem(gate.ENVIRONMENT, "PYTEST_PLUGINS", "xdist.plugin")


def group(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, repeats: int = 0) -> gate.Result:
    (folder / "tests" / "some").mkdir(parents=True)
    (folder / "tests" / "some" / "test_it.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(gate, "ROOT", folder)
    return gate.run_group(gate.Group("some", 0, repeats))


PASSES = "def test_one():\n    assert True\n"
SKIPS = "import pytest\n\n@pytest.mark.skip(reason='needs the moon')\ndef test_two():\n    assert True\n"


@pytest.mark.parametrize("ci", ["", "true"])
def test_skipped_tests_are_listed_and_fail_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str
) -> None:
    monkeypatch.setenv("CI", ci)
    result = group(tmp_path, monkeypatch, PASSES + SKIPS)
    assert result.counts == {"passed": 1, "skipped": 1}
    assert result.ok is not bool(ci)
    assert gate.print_summary([result], 1.0) == (1 if ci else 0)
    output = capsys.readouterr().out
    assert "test_two: needs the moon" in output
    assert output.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"


@pytest.mark.parametrize(("reason", "ok"), [("needs THE_MOON: a folder", True), ("needs the sun", False)])
def test_only_tests_that_need_an_absent_variable_may_be_skipped_in_ci(
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


# Fails in its first run, and passes in each later one.
UNSTEADY = """
from pathlib import Path

def test_four():
    marker = Path(__file__).with_name("ran")
    before = marker.exists()
    marker.touch()
    assert before
"""


def test_a_test_that_passes_when_run_again_is_listed_as_unsteady(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = gate.print_result(group(tmp_path, monkeypatch, PASSES + UNSTEADY, repeats=1))
    assert (result.ok, result.counts, len(result.unsteady)) == (True, {"passed": 2}, 1)
    assert gate.print_summary([result], 1.0) == 0
    output = capsys.readouterr().out
    assert "assert before" in output
    assert "to be mended):\n  tests.some.test_it.test_four\n" in output


def test_a_lasting_failure_or_too_many_fail_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lasting = "def test_three():\n    assert not True\n"
    for number, (text, failed) in enumerate(((PASSES + lasting, 1), (PASSES + UNSTEADY + lasting, 2))):
        result = group(tmp_path / str(number), monkeypatch, text, repeats=1)
        assert (result.ok, result.counts, result.unsteady) == (False, {"passed": 1, "failed": failed}, [])


def test_a_file_that_cannot_be_imported_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = group(tmp_path, monkeypatch, "raise SystemError('no')\n" + PASSES, repeats=1)
    assert not result.ok
    assert "run again" not in result.output


def test_a_group_without_tests_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not group(tmp_path, monkeypatch, "# nothing is collected from here\n").ok


def test_the_exit_code_of_a_check_is_its_result() -> None:
    program = Path(sys.executable).name
    good = gate.run_check(gate.Check("good", (program, "-c", "pass")))
    bad = gate.run_check(gate.Check("bad", (program, "-c", "raise SystemExit('it said no')")))
    assert (good.ok, bad.ok) == (True, False)
    assert "it said no" in bad.output


def test_unchanged_sources_are_not_checked_again_except_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".venv", "model"):
        (tmp_path / name).mkdir()
    source, runs = tmp_path / "model" / "one.py", tmp_path / "runs"
    source.write_text("ONE = 1\n", encoding="utf-8")
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    monkeypatch.delenv("CI", raising=False)

    def run_check(code: str = "") -> tuple[bool, str, int]:
        program = f"open({str(runs)!r}, 'a').write('x'); {code}"
        ended = gate.run_check(gate.Check("kinds", (Path(sys.executable).name, "-c", program), cached=True))
        return ended.ok, ended.summary, runs.stat().st_size

    assert run_check("raise SystemExit(1)") == (False, "", 1)
    assert run_check() == (True, "", 2)  # a failure is not remembered
    assert run_check() == (True, "unchanged since it passed", 2)
    monkeypatch.setenv("CI", "true")
    assert run_check() == (True, "", 3)
    monkeypatch.delenv("CI")
    source.write_text("ONE = 2\n", encoding="utf-8")
    # What changed while it was checked is checked again.
    assert run_check(f"open({str(source)!r}, 'a').write('TWO = 2')") == (True, "", 4)
    assert run_check() == (True, "", 5)
    source.rename(source.with_name("two.py"))
    assert run_check() == (True, "", 6)


def test_lanes_run_in_parallel_and_results_keep_their_order() -> None:
    both = threading.Barrier(2, timeout=30)

    def part(name: str) -> gate.Result:
        both.wait()
        return gate.Result(name, True, 0.0, "", "")

    lanes = [[functools.partial(part, name) for name in lane] for lane in (("one", "two"), ("three", "four"))]
    assert [result.name for result in gate.side_by_side(lanes)] == ["one", "two", "three", "four"]


def test_one_group_is_run_by_its_name_without_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(part: gate.Group | gate.Check, *_: object) -> gate.Result:
        ran.append(part.name)
        return gate.Result(part.name, True, 0.0, "", "")

    monkeypatch.setattr(gate, "run_group", run)
    monkeypatch.setattr(gate, "run_check", run)
    assert gate.main(["fast"]) == 0
    assert ran == ["fast"]
    with pytest.raises(SystemExit):
        gate.main(["slow"])


def test_a_tool_that_cannot_be_built_ends_the_gate_before_its_tests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> None:
        raise tools.ToolError("there is no Go compiler")

    monkeypatch.setattr(tools, "ensure", refused)
    assert gate.main(["engine"]) == 1
    output = capsys.readouterr().out
    assert "there is no Go compiler" in output
    assert "failed: tools" in output


def test_files_that_the_live_tests_begin_with_exist() -> None:
    assert [name for name in LONG if not (gate.ROOT / "tests" / "live" / name).is_file()] == []
