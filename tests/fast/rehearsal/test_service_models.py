"""botocore's files are read once a process, and nobody sees what another did to its copy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from botocore import loaders
from botocore.session import Session

from agentenv.rehearsal.providers.common import service_models


def test_file_is_read_once_and_callers_get_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    plainly = Session().get_service_data("budgets")
    monkeypatch.setattr(loaders.Loader, "FILE_LOADER_CLASS", loaders.JSONFileLoader)
    monkeypatch.setattr(service_models._OnceReader, "_cache", {})
    service_models.read_once()
    parsed: list[str] = []
    parse = service_models.json.loads

    def counted(text: bytes) -> Any:
        parsed.append("once")
        return parse(text)

    monkeypatch.setattr(service_models.json, "loads", counted)
    model = Session().get_service_data("budgets")
    assert model == plainly
    assert parsed
    del model["operations"], parsed[:]
    assert Session().get_service_data("budgets") == plainly
    assert parsed == []


def test_services_are_listed_once_for_each_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, listed in (("FILE_LOADER_CLASS", loaders.JSONFileLoader), ("list_available_services", None)):
        monkeypatch.setattr(loaders.Loader, name, listed or service_models._list_services)
    monkeypatch.setattr(service_models, "_services", {})
    plainly = Session().get_available_services()
    service_models.read_once()
    assert Session().get_available_services() == plainly
    monkeypatch.setattr(os, "listdir", None)
    Session().get_available_services().clear()
    assert Session().get_available_services() == plainly
    monkeypatch.undo()
    model = tmp_path / "teapots" / "2026-01-01" / "service-2.json"
    model.parent.mkdir(parents=True)
    model.write_text("{}", encoding="utf-8")
    assert "teapots" in loaders.create_loader(str(tmp_path)).list_available_services("service-2")


def test_service_without_a_model_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaders.Loader, "FILE_LOADER_CLASS", service_models._OnceReader)
    with pytest.raises(loaders.UnknownServiceError):
        Session().get_service_data("teapots")
