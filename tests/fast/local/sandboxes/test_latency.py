"""Only network mounts are delayed, and the runtime mounts what is delayed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from agentenv.local.sandboxes.bundle import Bundle, Mount
from agentenv.local.sandboxes.latency import WithLatency


class Runtime:
    """A runtime whose command is its mounts."""

    name = "plain"
    own_network = True
    not_simulated = ("everything",)

    def command(self, bundle: Bundle) -> list[str]:
        return ["run", *(f"{mount.source}:{mount.target}" for mount in bundle.mounts)]

    def terminate(self, bundle: Bundle, process: subprocess.Popen[bytes]) -> None:
        raise AssertionError(f"{bundle.id} is not terminated here, nor is {process.pid}")


def bundle(folder: Path, *mounts: Mount) -> Bundle:
    return Bundle("b", folder, folder / "root", ("true",), {}, mounts, 1000, 1000)


def test_the_home_is_delayed_and_other_mounts_are_not(tmp_path: Path) -> None:
    slow = WithLatency(Runtime(), Path("/opt/latencyfs"), 1.5)
    home, scratch = Mount(Path("/data/home"), "/home/agent", network=True), Mount(Path("/data/tmp"), "/tmp")  # noqa: S108
    target = tmp_path / "network-0"
    assert slow.command(bundle(tmp_path, home, scratch)) == [
        "/opt/latencyfs",
        "--delay=1.5ms",
        f"/data/home={target}",
        "--",
        "run",
        f"{target}:/home/agent",
        "/data/tmp:/tmp",
    ]
    assert target.is_dir()
    assert (slow.name, slow.own_network, slow.not_simulated) == (
        "plain, with 1.5 ms of latency on homes",
        True,
        ("everything",),
    )


def test_a_sandbox_without_a_home_runs_as_without_latency(tmp_path: Path) -> None:
    slow = WithLatency(Runtime(), Path("/opt/latencyfs"), 1.0)
    assert slow.command(bundle(tmp_path)) == ["run"]
