"""Every policy pack names its Python toolchain; otherwise the language host looks for `uv`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentenv.rehearsal.tools.python_host.interpreter import choose_for_pack
from tests.fast.rehearsal.tools.test_language_host_parts import virtualenv

ROOT = Path(__file__).parents[3]
PACKS = sorted(
    path.parent.relative_to(ROOT)
    for folder in ("policies", "bench", "tests")
    for path in (ROOT / folder).rglob("PulumiPolicy.yaml")
)


def options_of(pack: Path) -> dict[str, Any]:
    return yaml.safe_load((ROOT / pack / "PulumiPolicy.yaml").read_text(encoding="utf-8"))["runtime"]["options"]


def test_all_packs_of_the_checkout_are_found() -> None:
    assert {Path("policies/isolation"), Path("policies/cost"), Path("bench/empty_pack")} <= set(PACKS)


@pytest.mark.parametrize("pack", PACKS, ids=str)
def test_a_pack_names_its_toolchain_and_the_checkouts_virtual_environment(pack: Path) -> None:
    options = options_of(pack)
    assert options["toolchain"] == "pip"
    assert os.path.normpath(ROOT / pack / options["virtualenv"]) == str(ROOT / ".venv")


@pytest.mark.parametrize("pack", PACKS, ids=str)
def test_a_pack_runs_without_uv_in_a_checkout_that_has_its_lock(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = tmp_path / "checkout" / pack
    folder.mkdir(parents=True)
    (tmp_path / "checkout" / "uv.lock").touch()
    python = virtualenv(tmp_path / "checkout" / ".venv")
    chosen = choose_for_pack(options_of(pack), folder, folder)
    assert (chosen.toolchain, chosen.path.resolve()) == ("pip", python)
