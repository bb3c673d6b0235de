"""Tests of the rules with promtool: each fixture has exported series and the expected recordings."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from agentenv.components.cost.metering_values import configuration
from agentenv.config.sections.cost import Alertmanager
from agentenv.core.metering.rules import rule_file
from agentenv.core.metering.scraping import scrape_configs
from agentenv.core.metering.tariff import Tariff
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests.live.metering.conftest import TARIFF

ALERTMANAGER = Alertmanager(namespace="monitoring")
FIXTURES = sorted((Path(__file__).parent / "rules").glob("*.yaml"))
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def _promtool(tools: Toolbox, *arguments: str) -> None:
    ended = subprocess.run(
        [str(tools.path("promtool")), *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.stem)
def test_rules_record_the_expected_series(metering_tools: Toolbox, tmp_path: Path, fixture: Path) -> None:
    (tmp_path / "rules.yml").write_text(json.dumps(rule_file(TARIFF, failed_nodes=2)), encoding="utf-8")
    shutil.copy(fixture, tmp_path)
    _promtool(metering_tools, "test", "rules", str(tmp_path / fixture.name))


@pytest.mark.parametrize("tariff", [Tariff(), TARIFF], ids=["bare", "full"])
@pytest.mark.parametrize("service", [True, False])
def test_prometheus_accepts_its_configuration(
    metering_tools: Toolbox, tmp_path: Path, tariff: Tariff, *, service: bool
) -> None:
    for name in ("ca.crt", "token"):
        (tmp_path / name).touch()
    for name, text in configuration(
        scrape_configs(service=service), rule_file(tariff, failed_nodes=2), ALERTMANAGER
    ).items():
        here = text.replace(_ACCOUNT, str(tmp_path)).replace("/etc/config", str(tmp_path))
        (tmp_path / name).write_text(here, encoding="utf-8")
    _promtool(metering_tools, "check", "config", "--lint=all", "--lint-fatal", str(tmp_path / "prometheus.yml"))
