"""What a replica is told, and what it says where that is wrong."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from agentenv.service.__main__ import EXIT_INVALID, main
from agentenv.service.configuration import ConfigurationError, parse_configuration

CLASS = {"name": "standard", "image": f"registry.example.com/sandbox@sha256:{'a' * 64}"}


def settings(folder: Path, **config: Any) -> Path:
    file = folder / "settings.json"
    said = {"aws:region": "us-east-1", "agent-environment:sandboxClasses": [CLASS], **config}
    file.write_text(json.dumps({"environment": "dev", "config": said}))
    return file


def test_flags_come_before_the_environment_and_what_is_left_out_is_usual(tmp_path: Path) -> None:
    flags = [f"--settings={settings(tmp_path)}", "--file-system=fs-1", "--file-system=fs-2", "--port=1234"]
    around = {"POD_NAME": "pod-1", "KUBECONFIG": "/k", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://traces"}
    found = parse_configuration(flags, around)
    assert (found.replica, found.port, found.metrics_port, found.traces) == ("pod-1", 1234, 9090, "http://traces")
    assert found.kubeconfig == Path("/k")
    assert found.file_systems == ("fs-1", "fs-2")
    assert [one.name for one in found.settings.sandbox_classes] == ["standard"]
    said = parse_configuration([*flags, "--replica=r", "--kubeconfig=/other", "--traces=http://t", "--loops"], around)
    assert (said.replica, said.kubeconfig, said.traces, said.loops) == ("r", Path("/other"), "http://t", True)
    assert parse_configuration(flags, {}).kubeconfig is None


def test_settings_with_mistakes_are_told_all_at_once_and_end_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = settings(tmp_path, **{"agent-environment:service": {"replicas": 0, "logLevel": "loud", "later": 1}})
    with pytest.raises(ConfigurationError, match=r"(?s)replicas.*logLevel|logLevel.*replicas"):
        parse_configuration([f"--settings={wrong}"], {})
    with pytest.raises(ConfigurationError, match="not a settings file"):
        parse_configuration([f"--settings={tmp_path / 'none.json'}"], {})
    assert main([f"--settings={wrong}"]) == EXIT_INVALID
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["level"] == "critical"


def test_settings_of_a_later_version_are_ignored_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    later = settings(
        tmp_path,
        **{
            "agent-environment:sandboxClasses": [{**CLASS, "later": {"a": 1}, "pool": {"size": 3, "sooner": True}}],
            "agent-environment:quotas": {"users": 3},
            "agent-environment:service": {"replicas": 3, "replica": 4},
        },
    )
    found = parse_configuration([f"--settings={later}"], {})
    assert found.settings.service.replicas == 3
    assert found.settings.sandbox_classes[0].pool.size == 3
    ignored = {
        "agent-environment:quotas",
        "agent-environment:sandboxClasses[0].later",
        "agent-environment:sandboxClasses[0].pool.sooner",
        "agent-environment:service.replica",
    }
    assert set(found.ignored) == ignored

    async def nothing(*_: object) -> bool:
        return False

    monkeypatch.setattr("agentenv.service.__main__.serve", nothing)
    monkeypatch.setattr("agentenv.service.telemetry.logs.set_up", lambda _: None)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert main([f"--settings={later}", f"--metrics-port={port}", "--host=127.0.0.1"]) == 0
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert set(warning.__dict__["facts"]["keys"]) == ignored


def test_what_is_in_a_configuration_is_not_all_printed(tmp_path: Path) -> None:
    assert "sandboxClasses" not in repr(parse_configuration([f"--settings={settings(tmp_path)}"], {}))
