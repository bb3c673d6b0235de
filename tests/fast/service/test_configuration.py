"""The configuration of a replica, and the errors for an invalid one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentenv.rehearsal.controlplane.ports import Ports
from agentenv.service.__main__ import EXIT_INVALID, main
from agentenv.service.configuration import ConfigurationError, parse_configuration
from tests.fast.config.stack_samples import ACCESS

CLASS = {"name": "standard", "image": f"registry.example.com/sandbox@sha256:{'a' * 64}"}


def settings(folder: Path, **config: Any) -> Path:
    file = folder / "settings.json"
    config_ = {"aws:region": "us-east-1", **ACCESS, "agent-environment:sandboxClasses": [CLASS], **config}
    file.write_text(json.dumps({"environment": "dev", "config": config_}))
    return file


def test_flags_override_the_environment_and_others_have_defaults(tmp_path: Path) -> None:
    flags = [f"--settings={settings(tmp_path)}", "--file-system=fs-1", "--file-system=fs-2", "--port=1234"]
    variables = {"POD_NAME": "pod-1", "KUBECONFIG": "/k", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://traces"}
    configuration = parse_configuration(flags, variables)
    assert (configuration.replica, configuration.port, configuration.metrics_port, configuration.traces) == (
        "pod-1",
        1234,
        9090,
        "http://traces",
    )
    assert configuration.kubeconfig == Path("/k")
    assert configuration.file_systems == ("fs-1", "fs-2")
    assert [sandbox_class.name for sandbox_class in configuration.settings.sandbox_classes] == ["standard"]
    overridden = parse_configuration(
        [*flags, "--replica=r", "--kubeconfig=/other", "--traces=http://t", "--loops"], variables
    )
    assert (overridden.replica, overridden.kubeconfig, overridden.traces, overridden.loops) == (
        "r",
        Path("/other"),
        "http://t",
        True,
    )
    assert parse_configuration(flags, {}).kubeconfig is None


def test_all_mistakes_in_settings_are_reported_and_end_the_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    invalid = settings(tmp_path, **{"agent-environment:service": {"replicas": 0, "logLevel": "loud", "later": 1}})
    with pytest.raises(ConfigurationError, match=r"(?s)replicas.*logLevel|logLevel.*replicas"):
        parse_configuration([f"--settings={invalid}"], {})
    with pytest.raises(ConfigurationError, match="not a settings file"):
        parse_configuration([f"--settings={tmp_path / 'none.json'}"], {})
    assert main([f"--settings={invalid}"]) == EXIT_INVALID
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["level"] == "critical"


def test_settings_of_a_later_version_are_ignored_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    newer = settings(
        tmp_path,
        **{
            "agent-environment:sandboxClasses": [{**CLASS, "later": {"a": 1}, "pool": {"size": 3, "sooner": True}}],
            "agent-environment:quotas": {"users": 3},
            "agent-environment:service": {"replicas": 3, "replica": 4},
        },
    )
    configuration = parse_configuration([f"--settings={newer}"], {})
    assert configuration.settings.service.replicas == 3
    assert configuration.settings.sandbox_classes[0].pool.size == 3
    ignored = {
        "agent-environment:quotas",
        "agent-environment:sandboxClasses[0].later",
        "agent-environment:sandboxClasses[0].pool.sooner",
        "agent-environment:service.replica",
    }
    assert set(configuration.ignored) == ignored

    async def serve_nothing(*_: object) -> bool:
        return False

    monkeypatch.setattr("agentenv.service.__main__.serve", serve_nothing)
    monkeypatch.setattr("agentenv.service.telemetry.logs.set_up", lambda _: None)
    with Ports(("metrics",)) as ports:
        assert main([f"--settings={newer}", f"--metrics-port={ports['metrics']}", "--host=127.0.0.1"]) == 0
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert set(warning.__dict__["facts"]["keys"]) == ignored


def test_the_repr_of_a_configuration_has_no_settings(tmp_path: Path) -> None:
    assert "sandboxClasses" not in repr(parse_configuration([f"--settings={settings(tmp_path)}"], {}))
