"""A Prometheus server for tests, with data that was written before its start."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentenv.rehearsal.controlplane.ports import DIRECTLY, HOST, Ports

TIMEOUT = 180.0


class Refused(Exception):
    """A query that Prometheus refuses."""


@dataclass(frozen=True)
class PrometheusServer:
    """A running Prometheus."""

    address: str

    def get(self, path: str, **arguments: str) -> Any:
        """Return the data of a response."""
        url = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with DIRECTLY.open(url, timeout=TIMEOUT) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise Refused(json.load(error).get("error", str(error))) from None

    def at(self, query: str, moment: int) -> list[Any]:
        """Return the result of a query at a time."""
        return self.get("query", query=query, time=str(moment))["result"]

    def over(self, query: str, began: int, ended: int, step: int) -> list[Any]:
        """Return the result of a query over a time range."""
        return self.get("query_range", query=query, start=str(began), end=str(ended), step=str(step))["result"]


@contextlib.contextmanager
def serving(program: Path, data: Path, folder: Path, lookback: str) -> Iterator[PrometheusServer]:
    """Serve a folder of blocks.

    Backfilled series end without a staleness marker. `lookback` is the interval of the samples, so that each series
    ends with its last sample.
    """
    (folder / "nothing.yml").write_text("{}\n", encoding="utf-8")
    with Ports(["web"]) as ports:
        address = f"http://{HOST}:{ports['web']}"
        log = (folder / "prometheus.log").open("ab")
        process = subprocess.Popen(
            [
                str(program),
                f"--config.file={folder / 'nothing.yml'}",
                f"--storage.tsdb.path={data}",
                "--storage.tsdb.retention.time=10y",
                f"--web.listen-address={HOST}:{ports['web']}",
                f"--query.lookback-delta={lookback}",
                "--log.level=warn",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder)},
        )
        try:
            _await(process, address, folder / "prometheus.log")
            yield PrometheusServer(address)
        finally:
            process.terminate()
            try:
                process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.close()


def _await(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), DIRECTLY.open(f"{address}/-/ready", timeout=5):
            return
        time.sleep(0.05)
    raise RuntimeError(f"Prometheus did not come up:\n{log.read_text(encoding='utf-8')[-2000:]}")
