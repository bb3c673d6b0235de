"""The endpoint as a process: announced when it answers, quiet when it ends."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

PATIENCE = 60


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "agentenv.rehearsal.cloud", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_process_prints_its_address_and_exits_without_output(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    process = started("--ready-file", str(ready), "--log", str(tmp_path / "log"))
    try:
        deadline = time.monotonic() + PATIENCE
        while not ready.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        announcement = json.loads(ready.read_text())
        assert announcement["pid"] == process.pid
        with urllib.request.urlopen(f"{announcement['url']}/_cloud/health") as answer:  # noqa: S310 -- our own loopback
            assert answer.status == 200
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (0, "", "")
    assert not ready.exists()


def test_port_in_use_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = started("--port", str(taken.getsockname()[1]))
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "cannot listen" in err
    assert "Traceback" not in err
