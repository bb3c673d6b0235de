"""Package managers install into the home without root, and what they installed runs after sleep.

The sandbox has the environment of a class's template and a read-only image. Packages come from files: no registry is
reached; pipx uses uv, because with pip it fetches a newer pip. A tool that the image lacks is brought into the home, as
users do: pipx, uv, mise, and the toolchain of cargo. One that this machine lacks is not tried.
"""

from __future__ import annotations

import base64
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agentenv.core.classes.pods.environment import variables
from tests.live import npm_packages
from tests.live.controlplane.sandboxes.conftest import SandboxCluster
from tests.live.controlplane.sandboxes.pods import UID

Object = dict[str, Any]

HOME = "/home/agent"
WHEEL, PACKAGE = "/tmp/rehearsed-1.0-py3-none-any.whl", "/tmp/rehearsed.tgz"  # noqa: S108 - of the sandbox
GO_PROGRAM = b'package main\n\nimport "os"\n\nfunc main() { os.Stdout.WriteString("by-go\\n") }\n'
MISE, ARCHIVE = "2026.9.15", "/tmp/served/by-mise.tar.gz"  # noqa: S108 - of the sandbox
SERVED = "http://127.0.0.1:8000"
MISE_PLATFORMS = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}
_METADATA = "Metadata-Version: 2.1\nName: rehearsed\nVersion: 1.0\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_ENTRY = "[console_scripts]\nby-{name} = rehearsed:main\n"


def wheel(tool: str) -> bytes:
    """Return a wheel with one command, which prints its name."""
    files = {
        "rehearsed.py": f"def main():\n    print('by-{tool}')\n",
        "rehearsed-1.0.dist-info/METADATA": _METADATA,
        "rehearsed-1.0.dist-info/WHEEL": _WHEEL,
        "rehearsed-1.0.dist-info/entry_points.txt": _ENTRY.format(name=tool),
    }
    record = "".join(f"{name},,\n" for name in [*files, "rehearsed-1.0.dist-info/RECORD"])
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in {**files, "rehearsed-1.0.dist-info/RECORD": record}.items():
            archive.writestr(name, text)
    return content.getvalue()


def npm_package(tool: str) -> bytes:
    """Return an npm package with one command, which prints its name."""
    command = f"by-{tool}"
    package = {"name": "rehearsed", "version": "1.0.0", "bin": {command: "main.js"}}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        files = {"package.json": json.dumps(package), "main.js": f"#!/usr/bin/env node\nconsole.log('{command}')\n"}
        for name, text in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size, member.mode = len(text), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    return content.getvalue()


def program_archive(tool: str) -> bytes:
    """Return an archive with one program, which prints its name."""
    content, text = io.BytesIO(), f"#!/bin/sh\necho by-{tool}\n".encode()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        member = tarfile.TarInfo(f"by-{tool}")
        member.size, member.mode = len(text), 0o755
        archive.addfile(member, io.BytesIO(text))
    return content.getvalue()


def upload(content: bytes, path: str) -> str:
    """Return a script that writes a file."""
    return f"base64 -d > {path} <<'END'\n{base64.encodebytes(content).decode()}END\n"


INSTALL = {
    "pip": upload(wheel("pip"), WHEEL) + f"/usr/bin/python3 -m pip install --no-index --quiet {WHEEL}",
    "pipx": upload(wheel("pipx"), WHEEL)
    + f"UV_OFFLINE=1 /usr/bin/python3 -m pipx install --python /usr/bin/python3 {WHEEL}",
    "uv": upload(wheel("uv"), WHEEL) + f"uv tool install --offline --no-index --python /usr/bin/python3 {WHEEL}",
    "npm": upload(npm_package("npm"), PACKAGE) + f"npm install --global --offline --no-audit --no-fund {PACKAGE}",
    "go": "mkdir /tmp/by-go\ncd /tmp/by-go\n"
    + upload(b"module by-go\n\ngo 1.20\n", "go.mod")
    + upload(GO_PROGRAM, "main.go")
    + "PATH=$PATH:/usr/local/go/bin GOTOOLCHAIN=local go install .",
    # mise fetches by HTTP alone: a server in the sandbox has the archive
    "mise": "mkdir /tmp/served\n"
    + upload(program_archive("mise"), ARCHIVE)
    + "/usr/bin/python3 -m http.server 8000 --bind 127.0.0.1 --directory /tmp/served >/dev/null 2>&1 &\n"
    + f"until /usr/bin/python3 -c 'import urllib.request as r; r.urlopen(\"{SERVED}\")' 2>/dev/null; do :; done\n"
    + f"mise use --global 'http:by-mise[url={SERVED}/by-mise.tar.gz]@1.0'\nkill $!\n"
    + "ln -s ~/.local/share/mise/shims/by-mise ~/.local/bin/",
    "cargo": "mkdir -p /tmp/by-cargo/src\ncd /tmp/by-cargo\n"
    + upload(b'[package]\nname = "by-cargo"\nversion = "1.0.0"\nedition = "2021"\n', "Cargo.toml")
    + upload(b'fn main() { println!("by-cargo"); }\n', "src/main.rs")
    + "PATH=$HOME/.toolchain/bin:$PATH cargo install --offline --path .",
}


def bring(tool: str, own: str, home: Path) -> None:
    """Bring a tool into the home where the image lacks it."""
    if tool == "cargo":
        sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True)
        for name in ("bin", "lib"):
            # The same files: a copy takes a gigabyte
            source = Path(sysroot.stdout.strip(), name).resolve()
            shutil.copytree(source, home / ".toolchain" / name, copy_function=_link, symlinks=True)
        os.chown(home / ".toolchain", UID, UID)  # it is moved to the layout of homes
    if tool in {"pipx", "uv", "mise"}:
        (home / ".local" / "bin").mkdir(parents=True)
        shutil.copy(own if tool == "mise" else Path(own).with_name("uv"), home / ".local" / "bin")
    if tool == "pipx":
        show = "import site; print(site.getusersitepackages())"
        packages = subprocess.run(
            ["/usr/bin/python3", "-c", show], env={"HOME": str(home)}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for package in with_requirements(tool):
            for file in package.files or ():
                if ".." not in file.parts:
                    target = Path(packages, file)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file.locate(), target)
    for path in home.glob(".local/**/"):
        for entry in (path, *path.iterdir()):
            os.chown(entry, UID, UID)


def with_requirements(name: str) -> Iterator[Distribution]:
    """Yield an installed distribution and those that it requires here."""
    found, waiting = set[str](), [name]
    while waiting:
        if (current := canonicalize_name(waiting.pop())) not in found:
            found.add(current)
            yield (installed := distribution(current))
            requirements = map(Requirement, installed.requires or ())
            waiting += [row.name for row in requirements if row.marker is None or row.marker.evaluate({"extra": ""})]


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.mark.parametrize("tool", INSTALL)
def test_installed_packages_survive_suspension(cluster: SandboxCluster, tool: str) -> None:
    places = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/local/go/bin"
    if tool == "mise":
        places = str(npm_packages.installed(f"@jdxcode/mise-{MISE_PLATFORMS[platform.machine()]}", MISE) / "bin")
    own = shutil.which(tool, path=places)
    if own is None:
        pytest.skip(f"this machine has no {tool}")
    source, folder = cluster.home(f"tools-{tool}")
    bring(tool, own, folder)
    name, command = f"tools-{tool}", f"by-{tool}"
    environment = [{"name": name, "value": value} for name, value in variables(HOME).items()]
    pod = cluster.start(name, home=source, container={"env": environment})
    installed = cluster.run(pod, f"set -e\n{INSTALL[tool]}", seconds=300)
    assert installed.code == 0, installed.stderr
    ran = cluster.run(pod, command, seconds=300)
    assert ran.stdout == f"{command}\n", ran.stderr
    cluster.delete(name)
    again = cluster.start(name, home=source, container={"env": environment})
    shown = cluster.run(again, f"{command} && command -v {command}").stdout
    assert shown == f"{command}\n{HOME}/.local/bin/{command}\n"
    cluster.delete(name)
