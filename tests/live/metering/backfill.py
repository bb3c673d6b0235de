"""Fill a folder of Prometheus with a day of metrics, and with the series that the rules record.

Prometheus evaluates rules only in real time, so promtool evaluates them over the day. It evaluates rules without the
recordings of others, so rules that depend on each other are evaluated in passes.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from agentenv.core.metering.rule import EVERY, Rule
from agentenv.core.metering.rules import rule_file, rules
from agentenv.core.metering.tariff import Tariff
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests.live.metering import day
from tests.live.metering.server import serving

ENDED = day.BEGAN + day.MINUTES * 60
_RECORDED = re.compile(r"sandbox:[a-z_]+:[a-z0-9_]+")


def passes(evaluated: tuple[Rule, ...]) -> list[list[int]]:
    """Return the indexes of the rules, in passes: each depends only on recordings of earlier passes."""
    done: set[str] = set()
    found: list[list[int]] = []
    waiting = list(range(len(evaluated)))
    while waiting:
        ready = [at for at in waiting if set(_RECORDED.findall(evaluated[at].expr)) <= done]
        if not ready:
            raise ValueError(f"rules in a circle: {[evaluated[at].record for at in waiting]}")
        waiting = [at for at in waiting if at not in ready]
        found.append(ready)
        # A record is complete once all rules with its name are evaluated.
        done = {evaluated[at].record for places_ in found for at in places_} - {evaluated[at].record for at in waiting}
    return found


def fill(tools: Toolbox, folder: Path, tariff: Tariff) -> Path:
    """Create the blocks, and return their folder."""
    data, text = folder / "data", folder / "day.txt"
    text.write_text(day.samples().text(), encoding="utf-8")
    blocks, one_a_day = (str(tools.path("promtool")), "tsdb", "create-blocks-from"), "--max-block-duration=24h"
    _run(*blocks, "openmetrics", one_a_day, str(text), str(data))
    group: dict[str, Any] = rule_file(tariff, failed_nodes=3)["groups"][0]
    # One file for all, because the evaluation offset of a group depends on its name and its file's.
    chosen = folder / "rules.yml"
    for places in passes(rules(tariff)):
        part = {**group, "rules": [group["rules"][at] for at in places]}
        chosen.write_text(json.dumps({"groups": [part]}), encoding="utf-8")
        with serving(tools.path("prometheus"), data, folder, f"{day.EVERY}s") as prometheus:
            options = (
                f"--start={day.BEGAN}",
                f"--end={ENDED}",
                f"--url={prometheus.address}",
                f"--eval-interval={EVERY}",
            )
            _run(*blocks, "rules", one_a_day, *options, f"--output-dir={data}", str(chosen))
    return data


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command[1:4])} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
