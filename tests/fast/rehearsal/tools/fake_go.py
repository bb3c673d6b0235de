"""A `go` that does what a test tells it, as quickly as a script can.

Run as a program; the folder named by FAKE_GO holds its orders (`behaviour`) and what it tells about itself (`calls`,
`pids`).
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

VERSION = "go1.27.3"


def install(folder: Path) -> Path:
    """Put it into a folder as `go`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "go"
    path.write_text(f"#!{sys.executable} -IS\nexec(open({str(Path(__file__))!r}).read())\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def program(text: str) -> str:
    """A program that prints a text whatever it is asked."""
    return f"#!/bin/sh\necho '{text}'\n"


def main(arguments: list[str]) -> int:
    """Be go."""
    orders = Path(os.environ["FAKE_GO"])
    behaviour = (orders / "behaviour").read_text(encoding="utf-8") if (orders / "behaviour").exists() else "good"
    match arguments:
        case ["env", "GOVERSION"]:
            print(VERSION if behaviour != "old" else "go1.20.1")
            return 0
        case ["env", "-json", *_]:
            print(json.dumps({"GOCACHE": str(orders / "objects"), "GOMODCACHE": str(orders / "modules")}))
            return 0
    with (orders / "calls").open("a", encoding="utf-8") as log:
        log.write(" ".join(arguments) + "\n")
    match arguments[0]:
        case "list":
            return listing(behaviour)
        case "build":
            return building(behaviour, orders, Path(arguments[arguments.index("-o") + 1]))
        case "mod":
            module = orders / "modules" / "sdk"
            (module / "python" / "cmd").mkdir(parents=True, exist_ok=True)
            (module / "python" / "cmd" / "pulumi-language-python-exec").write_text("# the executor\n", encoding="utf-8")
            print(json.dumps({"Dir": str(module)}))
            return 0
    return 2


def listing(behaviour: str) -> int:
    """Answer which packages are out of date."""
    if behaviour == "no network":
        print("go: downloading example.com/thing v1.0.0", file=sys.stderr)
        address = "https://me:secret@proxy.example/thing"
        print(f'go: thing@v1: Get "{address}": dial tcp: lookup proxy.example: no such host', file=sys.stderr)
        return 1
    print("example.com/one\nexample.com/two")
    return 0


def building(behaviour: str, orders: Path, target: Path) -> int:
    """Build, or fail as told."""
    print("example.com/one", file=sys.stderr, flush=True)
    match behaviour:
        case "no space":
            target.write_text("half a prog", encoding="utf-8")
            print(f"write {target}: no space left on device", file=sys.stderr)
            return 1
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "compiler killed":
            print("example.com/two: /opt/go/pkg/tool/linux_amd64/compile: signal: killed", file=sys.stderr)
            return 1
        case "mistake":
            print("one.go:1:2: undefined: thing", file=sys.stderr)
            return 1
        case "slow":
            child = subprocess.Popen(["/bin/sleep", "600"])
            (orders / "pids").write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
            while (orders / "behaviour").read_text(encoding="utf-8") == "slow":
                time.sleep(0.02)
            child.kill()
    target.write_text(program("v3.259.0" if behaviour != "wrong version" else "v1.0.0"), encoding="utf-8")
    target.chmod(0o755)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
