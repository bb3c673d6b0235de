"""Each runtime starts the same bundle: workspaced serves, ends in order, and leaves no process when it is killed."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import psutil
import pytest

from agentenv.local import processes
from agentenv.local.sandboxes import addresses, detect, name_answers, relay, root_folder
from agentenv.local.sandboxes.bundle import SOCKET, SOCKET_FOLDER, Bundle, Mount, Network, Runtime
from agentenv.local.sandboxes.gvisor import GVisor
from agentenv.local.sandboxes.namespaces import Namespaces
from agentenv.local.sandboxes.plain import PlainProcesses
from agentenv.local.sandboxes.way_out import Protocol, Refusal, Resolve, Way
from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.controlplane.sandboxes.launcher import PODNETWORK, RUNSC, TOOLS, WORKSPACED
from agentenv.rehearsal.scenario.command_probe import CommandRefused, run_script
from agentenv.rehearsal.tools import Toolbox, ensure
from agentenv.rehearsal.tools.progress import Lines
from tests.live.controlplane.objects import TIMEOUT, runs
from tests.live.controlplane.sandboxes.pods import PORT, UID, Signer

INSIDE = "100.64.0.5"
WITH_NETWORK = ["gvisor", "namespaces"]
POD = {"metadata": {"uid": "u-1"}, "spec": {"containers": [{"ports": [{"name": "workspaced", "containerPort": PORT}]}]}}


@pytest.fixture(scope="module")
def toolbox() -> Toolbox:
    return ensure([], Lines(sys.stderr), TOOLS)


@dataclass
class Started:
    """A running bundle."""

    bundle: Bundle
    runtime: Runtime
    process: subprocess.Popen[bytes]
    run: Callable[[str], str]
    mark: str

    def processes_(self) -> list[psutil.Process]:
        """Return the processes of the sandbox."""
        process = psutil.Process(self.process.pid)
        return [process, *process.children(recursive=True)]


@pytest.fixture(params=["gvisor", "namespaces", "processes"])
def started(request: pytest.FixtureRequest, toolbox: Toolbox, tmp_path: Path) -> Iterator[Started]:
    yield from start(runtime_of(request.param, toolbox), toolbox, tmp_path)


def runtime_of(name: str, toolbox: Toolbox) -> Runtime:
    runtimes = {"gvisor": GVisor(toolbox.path(RUNSC)), "namespaces": Namespaces(), "processes": PlainProcesses()}
    return runtimes[name]


def decide(protocol: Protocol, address: IPv4Address, port: int) -> Way:
    """Lead to another sandbox, to a resolver or nowhere."""
    ways = {
        ("TCP", "1.1.1.1", 80): Refusal.DROP,
        ("TCP", "1.1.1.2", 80): Refusal.REFUSE,
        ("UDP", "1.1.1.3", 53): Resolve(lambda query: name_answers.answer(query, {"known.example": ["1.1.1.2"]}.get)),
    }
    return ways[protocol, str(address), port]


def start(runtime: Runtime, toolbox: Toolbox, folder: Path) -> Iterator[Started]:
    signer, mark, held = Signer(), f"test-{secrets.token_hex(4)}", addresses.hold(str(folder))
    (folder / "network").mkdir()
    sockets = folder / "network"
    interface = Network(toolbox.path(PODNETWORK), INSIDE, sockets / "relay", sockets / "inbound")
    network = interface if runtime.own_network else None
    for name in ("home", "keys", "program", "socket"):
        (folder / name).mkdir()
        folder.joinpath(name).chmod(0o755)
    if os.geteuid() == 0 and runtime.own_network:
        for name in ("home", "socket"):
            os.chown(folder / name, UID, UID)
    (folder / "keys" / "keys.json").write_text(signer.keys(), encoding="utf-8")
    shutil.copy2(toolbox.path(WORKSPACED), folder / "program" / "workspaced")
    mounts = (
        *root_folder.create(folder / "root", "host-1", held.ip, resolver="nameserver 1.1.1.3\n"),
        Mount(folder / "home", "/home/agent"),
        Mount(folder / "keys", "/etc/workspaced", read_only=True),
        Mount(folder / "program", "/opt/workspaced", read_only=True),
        Mount(folder / "socket", SOCKET_FOLDER),
    )
    listen = f"unix:{SOCKET_FOLDER}/{SOCKET}" if runtime.own_network else f"{held.ip}:{PORT}"
    arguments = ("/opt/workspaced/workspaced", "run", "--pod-uid", "u-1", "--keys", "/etc/workspaced/keys.json",
                 "--grace", "5s", "--listen", listen)  # fmt: skip
    variables = {"PATH": root_folder.PATH, "HOME": "/home/agent"}
    bundle = Bundle(
        mark, folder, folder / "root", arguments, variables, mounts, UID, UID, hostname="host-1", network=network
    )
    passer = relay.Relay()
    passer.open_exit(interface.relay, decide)
    if runtime.own_network:
        passer.lead_to(passer.open(held.ip, PORT), bundle.socket)
    process = subprocess.Popen(
        runtime.command(bundle), env={"PATH": os.environ["PATH"], processes.MARK: mark}, cwd=folder
    )
    pod = {**POD, "status": {"podIP": held.ip}}

    def run(script: str) -> str:
        return run_script(pod, signer.token("u-1"), script).stdout

    def serves() -> bool:
        return run("true") == ""

    try:
        assert until(serves, TIMEOUT, failed=lambda: str(process.returncode) if process.poll() is not None else None)
        yield Started(bundle, runtime, process, run, mark)
    finally:
        processes.end(mark)
        process.wait(TIMEOUT)
        passer.stop()
        held.release()


def test_sandbox_runs_as_its_user_in_its_home(started: Started) -> None:
    uid, home, hostname, *files = started.run("id -u; pwd; uname -n; echo x > file; ls ~").splitlines()
    assert files == ["file"]
    if started.runtime.own_network:
        assert (uid, home, hostname) == (str(UID), "/home/agent", "host-1")
        assert started.run("grep -o '[a-z0-9]*:' /proc/net/dev") == "lo:\neth0:\n"
        assert "cannot touch" in started.run("touch /etc/x 2>&1")
    owner = (started.bundle.folder / "home" / "file").stat().st_uid
    assert owner == (UID if os.geteuid() == 0 and started.runtime.own_network else os.geteuid())


@pytest.mark.parametrize("started", WITH_NETWORK, indirect=True)
def test_connections_of_a_sandbox_are_decided_outside_of_it(started: Started) -> None:
    curl = "curl --silent --max-time 2 http://{}/; echo $?"
    places = ("1.1.1.1", "1.1.1.2", "known.example", "unknown.example")
    assert started.run("\n".join(map(curl.format, places))).split() == ["28", "7", "7", "6"]


@pytest.mark.parametrize("started", WITH_NETWORK, indirect=True)
def test_sandbox_is_entered_at_a_port_from_another_address(started: Started) -> None:
    listen = "import socket; s = socket.create_server(('0.0.0.0', 8080)); open('up', 'w')"
    serve = f"{listen}; c, a = s.accept(); c.send(a[0].encode())"
    started.run(f'(setsid python3 -c "{serve}" > /dev/null 2>&1 &); until [ -e up ]; do sleep 0.1; done')
    for port, answer in ((8081, b"refuse\n"), (8080, b"open\n100.64.0.9")):
        with (
            socket.socket(socket.AF_UNIX) as caller,
            relay.short_path(started.bundle.folder / "network/inbound") as path,
        ):
            caller.settimeout(TIMEOUT)
            caller.connect(path)
            caller.sendall(f"tcp {port} 100.64.0.9\n".encode())
            assert caller.makefile("rb").read() == answer


def test_sandbox_shuts_down_gracefully(started: Started) -> None:
    trap = "trap 'echo ended > ended; exit' TERM; touch trapped; while :; do sleep 0.1; done"
    started.run(f'(setsid sh -c "{trap}" > /dev/null 2>&1 &); until [ -e trapped ]; do sleep 0.1; done')
    started.runtime.terminate(started.bundle, started.process)
    assert started.process.wait(TIMEOUT) == 0
    assert (started.bundle.folder / "home" / "ended").read_text() == "ended\n"


def test_killed_sandbox_leaves_no_process(started: Started) -> None:
    started.run("(setsid sleep 600 > /dev/null 2>&1 &)")
    processes_ = started.processes_()
    assert len(processes_) > 1
    processes.end(started.mark)
    started.process.wait(TIMEOUT)
    assert until(lambda: not any(map(runs, processes_)), TIMEOUT)


@pytest.mark.parametrize("name", WITH_NETWORK)
def test_killing_any_process_of_a_sandbox_leaves_no_orphan(name: str, toolbox: Toolbox, tmp_path: Path) -> None:
    opened = contextlib.contextmanager(start)
    for number in itertools.count():
        folder = tmp_path / str(number)
        folder.mkdir()
        with opened(runtime_of(name, toolbox), toolbox, folder) as started:
            started.run("(setsid sleep 600 > /dev/null 2>&1 &)")
            every = sorted(started.processes_(), key=lambda process: (process.create_time(), process.pid))
            if number == len(every):
                return
            every[number].kill()

            def ended_or_serves(started: Started = started, every: list[psutil.Process] = every) -> bool:
                if started.process.poll() is not None:
                    return not any(map(runs, every))
                with contextlib.suppress(OSError, CommandRefused):
                    return started.run("echo serves") == "serves\n"
                return False

            assert until(ended_or_serves, TIMEOUT), every[number]


def test_strongest_available_runtime_is_chosen(toolbox: Toolbox, tmp_path: Path) -> None:
    chosen, passed_over = detect.choose(toolbox.path(WORKSPACED), toolbox.path(RUNSC), tmp_path)
    assert (chosen and chosen.name, passed_over) == ("gvisor", ())
    broken = tmp_path / "runsc"
    broken.write_text("#!/bin/sh\necho not permitted >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    chosen, passed_over = detect.choose(toolbox.path(WORKSPACED), broken, tmp_path)
    assert chosen
    assert chosen.name == "namespaces"
    assert passed_over == ("gvisor: not permitted",)
    assert chosen.not_simulated
