"""First paint of the console in Chromium before the gateway of `agentenv dev`, compared with a page of one heading.

`first_paint_ms` is of the sign-in page with an empty cache, `again_ms` with the files kept, and `baseline_ms` of a page
without files from a plain server. Each is the best of the runs, of which each has a browser of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError

_SECONDS = 60.0
CHROMIUM_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
)
_PAINT = "return performance.getEntriesByName('first-contentful-paint').map((entry) => entry.startTime)[0]"
_BYTES = (
    "return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
    ".reduce((sum, entry) => sum + entry.transferSize, 0)"
)


def measure(repeat: int) -> dict[str, Any]:
    """Return the figures, in milliseconds and KiB."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        raise CommandError("Chromium is not installed; on Debian: apt install chromium chromium-driver")
    with _served() as console, _plain() as baseline:
        _paint(console, baseline)  # the first browser of a machine also reads its program
        runs = [_paint(console, baseline) for _ in range(repeat)]
    first, again, plain = (min(run[place] for run in runs) for place in range(3))
    return {
        "first_paint_ms": round(first),
        "again_ms": round(again),
        "baseline_ms": round(plain),
        "ratio": round(first / plain, 1),
        "transferred_kib": round(runs[0][3] / 1024, 1),
    }


def _paint(console: str, baseline: str) -> tuple[float, float, float, float]:
    """Return the first paints of the console, of it again, and of the baseline, and the bytes of the first."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    with tempfile.TemporaryDirectory() as folder:
        options = webdriver.ChromeOptions()
        for option in (*CHROMIUM_OPTIONS, f"--user-data-dir={folder}"):
            options.add_argument(option)
        options.binary_location = shutil.which("chromium") or ""
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        wait: WebDriverWait[Any] = WebDriverWait(driver, _SECONDS, poll_frequency=0.02)
        try:

            def paint(address: str) -> float:
                driver.get(address)
                return wait.until(lambda _: driver.execute_script(_PAINT))

            paint(baseline)  # the first page of a browser also starts its renderer
            plain, first = paint(baseline), paint(console)
            transferred = driver.execute_script(_BYTES)
            paint(baseline)
            return first, paint(console), plain, transferred
        finally:
            driver.quit()


@contextmanager
def _served() -> Iterator[str]:
    """Serve `agentenv dev`, and yield the console's address."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "agentenv",
            "dev",
            "--port",
            "0",
            "--json",
            "--state",
            str(Path(folder) / "dev"),
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise CommandError("`agentenv dev` does not start; run it to see why")
            yield str(json.loads(line)["console"])
        finally:
            process.terminate()
            process.wait(_SECONDS)


@contextmanager
def _plain() -> Iterator[str]:
    """Serve a page of one heading."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<!doctype html><title>Page</title><h1>Page</h1>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the base's

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
