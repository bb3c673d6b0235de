"""The catalogue's rows agree with what their folders pin, and say what else will do."""

from __future__ import annotations

import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from agentenv.rehearsal.tools import cache, catalog, ensure, toolbox
from agentenv.rehearsal.tools.catalog import ModuleFile, Program
from agentenv.rehearsal.tools.errors import NoSources
from agentenv.rehearsal.tools.progress import Silent
from agentenv.rehearsal.tools.versions import need
from tests.fast.rehearsal.tools import fake_go

_REQUIRED = re.compile(r"^(?:require )?\s*(?P<module>[\w./-]+\.[\w./-]+) (?P<version>v\S+)", re.MULTILINE)


def _pinned(row: catalog.Recipe, package: str) -> str:
    """The version of the module that holds the package: the longest of those that lead to it."""
    text = (catalog.folder(row) / "go.mod").read_text(encoding="utf-8")
    required = {found["module"]: found["version"] for found in _REQUIRED.finditer(text)}
    holders = [module for module in required if f"{package}/".startswith(f"{module}/")]
    return required[max(holders, key=len)]


PROGRAMS = [row for row in catalog.RECIPES if isinstance(row, Program)]
PINNED = [row for row in catalog.RECIPES if not (isinstance(row, Program) and row.sources)]


@pytest.mark.parametrize("row", PINNED, ids=lambda row: row.name)
def test_a_row_names_the_version_that_its_folder_pins(row: catalog.Recipe) -> None:
    package = row.package if isinstance(row, Program) else row.module
    assert _pinned(row, package) == (row.pinned or row.version)


@pytest.mark.parametrize("row", PROGRAMS, ids=lambda row: row.name)
def test_programs_are_stripped_and_reproducible(row: Program) -> None:
    trim, *tags, name, linked = row.flags()
    assert (trim, name) == ("-trimpath", "-ldflags")
    assert linked.startswith("-s -w")
    if row.sources:
        assert tags == ["-buildvcs=false"]
        assert (row.sources / row.package).is_dir()
        return
    assert tags == (["-tags", ",".join(row.tags)] if row.tags else [])
    assert f"tool {row.package}" in (catalog.folder(row) / "go.mod").read_text().replace("tool (\n\t", "tool ") or (
        f"\t{row.package}\n" in (catalog.folder(row) / "go.mod").read_text()
    )


def test_kubernetes_is_linked_with_one_version_throughout() -> None:
    text = (catalog.HERE / "kubernetes" / "go.mod").read_text(encoding="utf-8")
    replaced = re.findall(r"(k8s\.io/\S+) => (\S+) (v\S+)", text)
    assert len(replaced) > 20
    assert all((before, version) == (after, "v0.35.4") for before, after, version in replaced)
    linked = catalog.recipe("kube-apiserver").flags()[2]
    assert "version.gitVersion=v1.35.4" in linked
    assert "version.gitMinor=35" in linked


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("kube-apiserver", ["v1.35.0", "v1.35.9"], ["v1.34.9", "v1.36.0", "v1.35.0-rc.1"]),
        ("etcd", ["v3.6.0", "v3.7.1"], ["v3.5.21"]),
        ("kwok", ["v0.8.0", "v0.9.0"], ["v0.7.9"]),
    ],
)
def test_other_version_is_used_only_if_compatible(name: str, taken: list[str], refused: list[str]) -> None:
    row = catalog.recipe(name)
    assert isinstance(row, Program)
    assert all(row.takes(need(version)) for version in taken)
    assert not any(row.takes(need(version)) for version in refused)


def test_assets_of_controller_tests_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = catalog.recipe("kube-apiserver")
    for folder, version in (("assets", "v1.35.2"), ("bin", "v1.35.7"), ("newer", "v1.36.1")):
        program = tmp_path / folder / row.name
        program.parent.mkdir()
        program.write_text(fake_go.program(f"Kubernetes {version}"), encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert toolbox.find(row).version == "1.35.2"
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "newer"))
    found = toolbox.find(row)
    assert found.version == "1.35.7"
    assert "1.35.0 or newer within 1.35 is needed" in found.detail


def test_module_folder_is_complete_and_fetched_again_when_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = catalog.recipe("agent-sandbox-manifests")
    assert isinstance(row, ModuleFile)
    fake_go.install(tmp_path / "bin")
    source = tmp_path / "orders" / "modules" / "sdk" / row.member / "crds"
    source.mkdir(parents=True)
    (source / "one.yaml").write_text("kind: One\n", encoding="utf-8")
    source.chmod(0o555)  # as Go's module cache has it
    monkeypatch.setenv("FAKE_GO", str(tmp_path / "orders"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("AGENTENV_CACHE", str(tmp_path / "cache"))
    member = ensure([row.name], Silent()).path(row.name) / "crds" / "one.yaml"
    assert member.read_text() == "kind: One\n"
    assert member.parent.stat().st_mode & stat.S_IWUSR
    assert toolbox.find(row).source == "cache"
    member.write_text("kind: Two\n", encoding="utf-8")
    assert cache.lookup(catalog.key(row), row.name) is None
    assert ensure([row.name], Silent()).path(row.name).joinpath("crds", "one.yaml").read_text() == "kind: One\n"


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of a checkout, as the row of workspaced names it."""
    folder = tmp_path / "workspaced"
    (folder / "cmd").mkdir(parents=True)
    for name in ("go.mod", "go.sum", "cmd/main.go", "cmd/main_test.go"):
        (folder / name).write_text(name, encoding="utf-8")
    rows = tuple(replace(row, sources=folder) if row.name == "workspaced" else row for row in catalog.RECIPES)
    monkeypatch.setattr(catalog, "RECIPES", rows)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("AGENTENV_CACHE", str(tmp_path / "cache"))
    return folder


def test_a_program_of_the_checkout_is_built_again_when_its_sources_change(sources: Path) -> None:
    before = catalog.key(catalog.recipe("workspaced"))
    (sources / "cmd" / "main_test.go").write_text("another test", encoding="utf-8")
    assert catalog.key(catalog.recipe("workspaced")) == before
    (sources / "cmd" / "main.go").write_text("another program", encoding="utf-8")
    assert catalog.key(catalog.recipe("workspaced")) != before


def test_program_of_the_checkout_is_found_on_path_or_named_as_missing(sources: Path, tmp_path: Path) -> None:
    installed = tmp_path / "bin" / "workspaced"
    installed.parent.mkdir()
    installed.write_text(fake_go.program(catalog.recipe("workspaced").version), encoding="utf-8")
    installed.chmod(0o755)
    assert toolbox.find(catalog.recipe("workspaced")).source == "absent", "a checkout runs its own sources"
    (sources / "go.mod").unlink()
    assert ensure([], Silent(), optional=["workspaced"]).path("workspaced") == installed
    installed.unlink()
    assert toolbox.effort(catalog.recipe("workspaced")) == "is built from a checkout of the project"
    box = ensure([], Silent(), optional=["workspaced"])
    assert "built from a checkout" in box.missing["workspaced"]
    with pytest.raises(NoSources):
        ensure(["workspaced"], Silent())
