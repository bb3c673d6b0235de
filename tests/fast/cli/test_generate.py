"""The generated files are up to date, and a changed one is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentenv import generate

ROOT = Path(__file__).resolve().parents[3]


def test_the_generated_files_are_up_to_date() -> None:
    assert generate.drifted(ROOT) == []


def test_a_file_is_written_once(tmp_path: Path) -> None:
    every = [file.path for file in generate.FILES]
    assert generate.write(tmp_path) == every
    assert generate.write(tmp_path) == []


def test_a_changed_file_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    generate.write(tmp_path)
    page = tmp_path / "docs" / "reference" / "settings.md"
    page.write_text(page.read_text("utf-8").replace("# Settings", "# Sittings"), encoding="utf-8")
    monkeypatch.setattr(generate, "checkout", lambda: tmp_path)
    assert generate.main(["--check"]) == 1
    output = capsys.readouterr().out
    assert "docs/reference/settings.md is not up to date" in output
    assert "-# Sittings\n+# Settings" in output
    assert "stack.schema.json" not in output
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


@pytest.mark.parametrize("file", generate.FILES, ids=lambda file: file.path)
def test_a_file_does_not_depend_on_when_it_is_written(file: generate.Generated) -> None:
    assert file.text() == file.text()
    assert file.text().endswith("\n")
