"""Tests of a node's user data: its documents, and its script under bash."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tomllib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentenv.core.nodes.bootstrap import user_data
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.nodes.tiers import KATA_GUEST_MEMORY, KATA_NODE_MEMORY, WALLS, Wall, wall_of
from agentenv.core.pinned_versions import Runtime, releases, verified
from agentenv.core.values.quantities import Quantity
from tests.stub_server import Request, Response, self_signed, stub_server

ARCHIVE = b"an archive"
SHA256, SHA512 = f"sha256:{hashlib.sha256(ARCHIVE).hexdigest()}", f"sha512:{hashlib.sha512(ARCHIVE).hexdigest()}"
FILES = "https://agents-prod-runtimes-111122223333.s3.us-east-1.amazonaws.com"
OTHER = f"sha256:{'0' * 64}"
FETCHED = {
    "gvisor": Runtime(("https://e.example/{machine}/gvisor.tar.zstd",), "1", {"amd64": SHA512, "arm64": OTHER}),
    "kata": Runtime(("https://e.example/kata-{package}.tar.zst",), "1", {"amd64": SHA256, "arm64": OTHER}),
}
# Beside what is looked at, nothing of this machine is touched: each of these only tells that it was called.
COMMANDS = ("systemctl", "ln", "tar", "dnf", "zstd", "modprobe", "mkdir", "iptables")


def parts(text: str) -> dict[str, str]:
    """The parts of a MIME document, by kind."""
    document = message_from_string(text)
    assert document.is_multipart()
    return {part.get_content_type(): str(part.get_payload()) for part in document.walk() if not part.is_multipart()}


def wall(word: str) -> Wall:
    return next(wall_ for wall_ in WALLS if wall_.word == word)


@dataclass(frozen=True)
class Ran:
    """The exit code of the script, and its calls."""

    code: int
    calls: tuple[str, ...]


def run(
    folder: Path,
    word: str,
    curl: str,
    *,
    machine: str = "x86_64",
    systemctl: str = "",
    fetched: Mapping[str, Runtime] = FETCHED,
    environment: Mapping[str, str] | None = None,
) -> Ran:
    """The script of a wall's nodes, with commands of ours before those of this machine; `curl` is what it does.

    Without it the machine's own runs.
    """
    recorded = folder / "told"
    recorded.touch()
    programs = dict.fromkeys(COMMANDS, f'echo "$(basename "$0") $*" >> {recorded}')
    programs["systemctl"] += f"\n{systemctl}"
    programs |= {"uname": f"echo {machine}", "mktemp": f"/bin/mkdir {folder}/work && echo {folder}/work"}
    programs |= {"curl": curl} if curl else {}
    for name, body in programs.items():
        program = folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/bash\n{body}\n")
        program.chmod(0o755)
    script = parts(user_data(wall(word), fetched))["text/x-shellscript"]
    # The files that it writes without a program's help
    script = script.replace("/etc/systemd/system/pods-to-node", f"{folder}/pods-to-node")
    script = script.replace("/etc/containerd/", f"{folder}/").replace("/usr/local/bin", f"{folder}/local")
    script = script.replace("/opt/kata/share/defaults/kata-containers/config.d/", f"{folder}/")
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], env={**(environment or {}), "PATH": path}, capture_output=True, check=False, timeout=60
    )
    return Ran(done.returncode, tuple(recorded.read_text().splitlines()))


SHIELDED = ("systemctl daemon-reload", "systemctl enable --now pods-to-node.service")
CLOSED = (
    "ln -sf /dev/null /etc/systemd/system/nodeadm-run.service",
    "systemctl daemon-reload",
    "systemctl poweroff --no-block",
)


def writing(content: str) -> str:
    return f'printf %s "{content}" > "$(basename "${{@: -1}}")"'


@pytest.mark.parametrize("word", ["gvisor", "kata"])
def test_a_node_without_its_runtime_never_joins(tmp_path: Path, word: str) -> None:
    ran = run(tmp_path, word, "exit 22")
    assert ran.code != 0
    assert ran.calls == (*SHIELDED, *CLOSED)


@pytest.mark.parametrize("word", ["gvisor", "kata"])
def test_a_node_with_a_wrong_archive_never_joins(tmp_path: Path, word: str) -> None:
    ran = run(tmp_path, word, writing("another archive"))
    assert ran.code != 0
    assert ran.calls == (*SHIELDED, *CLOSED)


@pytest.mark.parametrize(("machine", "joins"), [("x86_64", True), ("aarch64", False), ("riscv64", False)])
def test_a_node_joins_with_the_pinned_archive_only(tmp_path: Path, machine: str, joins: bool) -> None:
    ran = run(tmp_path, "kata", writing(ARCHIVE.decode()), machine=machine)
    assert (ran.code == 0) is joins
    unpacked = f"tar --zstd --no-same-owner -xf kata-{'amd64' if machine == 'x86_64' else 'arm64'}.tar.zst -C /"
    assert (unpacked in ran.calls) is joins
    assert (CLOSED[0] in ran.calls) is not joins


# What the archive of a release has in it; `tar` lays it out as told.
SIDECARS = ("runsc", "containerd-shim-runsc-v1", "gvisor-bin/gvisor_sentry")


@pytest.mark.parametrize("missing", ["", *SIDECARS[1:]])
def test_a_node_with_a_verified_gvisor_joins_and_configures_it(tmp_path: Path, missing: str) -> None:
    for file in SIDECARS:
        if file != missing:
            laid = tmp_path / "local" / file
            laid.parent.mkdir(parents=True, exist_ok=True)
            laid.touch(0o755)
    ran = run(tmp_path, "gvisor", writing(ARCHIVE.decode()))
    assert (ran.code == 0) is (not missing)
    assert ran.calls[len(SHIELDED)] == f"tar --zstd --no-same-owner -xf gvisor.tar.zstd -C {tmp_path}/local"
    if missing:
        assert ran.calls[-3:] == CLOSED
        return
    recorded = tomllib.loads((tmp_path / "runsc.toml").read_text())
    assert recorded == {"runsc_config": {"platform": "systrap", "systemd-cgroup": "true"}}


@dataclass
class Sources:
    """A mirror and the public address, on loopback over TLS: what each answers, and the requests for it."""

    mirror: list[Response]
    public: list[Response]
    certificate: Path
    requests: list[str] = field(default_factory=list[str])

    def respond(self, name: str, answers: list[Response]) -> Callable[[Request], Response]:
        """Return a function that gives each answer once, and the last for ever."""

        def answer(request: Request) -> Response:
            self.requests.append(f"{name} {request.path}")
            return answers.pop(0) if len(answers) > 1 else answers[0]

        return answer

    @contextmanager
    def runtimes(self, *, isolated: bool) -> Generator[dict[str, Runtime]]:
        """Serve both; yield the runtimes of nodes that use them."""
        self_signed(self.certificate)
        with (
            stub_server(self.respond("mirror", self.mirror), certificate=self.certificate) as mirror,
            stub_server(self.respond("public", self.public), certificate=self.certificate) as public,
        ):
            runtime = Runtime(
                (f"https://127.0.0.1:{public}/1/{{package}}.zst",), "1", {"amd64": SHA256, "arm64": OTHER}
            )
            mirrors = Mirrors(files=f"https://127.0.0.1:{mirror}/nodes")
            yield mirrors.runtimes({"kata": runtime}, isolated=isolated)


ABSENT, PRESENT, WRONG = Response(404), Response(body=ARCHIVE), Response(body=b"another archive")
MIRROR, PUBLIC = "mirror /nodes/kata/1/amd64.zst", "public /1/amd64.zst"


@pytest.mark.parametrize(
    ("sources", "requests", "joins"),
    [
        (([PRESENT], [ABSENT], False), [MIRROR], True),
        (([ABSENT], [PRESENT], False), [MIRROR, PUBLIC], True),
        (([Response(403)], [PRESENT], False), [MIRROR, PUBLIC], True),
        (([WRONG], [PRESENT], False), [MIRROR, PUBLIC], True),
        # The last address is tried again, whatever the error; wrong bytes are not.
        (([ABSENT], [ABSENT, PRESENT], False), [MIRROR, PUBLIC, PUBLIC], True),
        (([ABSENT], [WRONG], False), [MIRROR, PUBLIC], False),
        (([WRONG], [PRESENT], True), [MIRROR], False),
        (([ABSENT, PRESENT], [PRESENT], True), [MIRROR, MIRROR], True),
    ],
)
def test_a_node_takes_the_first_source_with_the_pinned_bytes(
    tmp_path: Path, sources: tuple[list[Response], list[Response], bool], requests: list[str], joins: bool
) -> None:
    mirror, public, isolated = sources
    served = Sources([*mirror], [*public], tmp_path / "certificate.pem")
    with served.runtimes(isolated=isolated) as fetched:
        ran = run(tmp_path, "kata", "", fetched=fetched, environment={"CURL_CA_BUNDLE": str(served.certificate)})
    assert served.requests == requests
    assert (ran.code == 0) is joins
    assert (CLOSED[0] in ran.calls) is not joins


@pytest.mark.parametrize(("word", "handler"), [("gvisor", "runsc"), ("kata", "kata")])
def test_a_node_configures_the_runtime_handler_in_containerd(word: str, handler: str) -> None:
    text = user_data(wall(word), Mirrors(files=FILES).runtimes(releases().runtimes))
    recorded = parts(text)
    config = yaml.safe_load(recorded["application/node.eks.aws"])
    assert (config["kind"], config["apiVersion"]) == ("NodeConfig", "node.eks.aws/v1alpha1")
    table = tomllib.loads(config["spec"]["containerd"]["config"])
    assert set(table["plugins"]) == {"io.containerd.cri.v1.runtime"}
    runtimes = table["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]
    assert set(runtimes) == {handler} == {wall(word).handler}
    script = recorded["text/x-shellscript"]
    assert script.startswith("#!/bin/bash")
    assert releases().runtimes[word].version in script
    # Karpenter's own part comes on top, and EC2 takes 16 KiB.
    assert len(text) < 8192


@pytest.mark.parametrize(
    "digests",
    [{}, {"amd64": SHA256}, {"amd64": SHA256, "arm64": "ab" * 32}, {"amd64": SHA256, "arm64": SHA256[:-1]}],
)
def test_a_runtime_without_a_digest_is_refused(digests: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"runtimes\.kata in pinned_versions\.toml has no digest"):
        verified("kata", Runtime(("https://e.example/{package}",), "1", digests))
    assert set(releases().runtimes) == {wall_of("standard").word, wall_of("untrusted").word}


@pytest.mark.parametrize("word", ["runc", "nitro"])
def test_a_runtime_in_the_image_is_not_fetched(tmp_path: Path, word: str) -> None:
    ran = run(tmp_path, word, "exit 22")
    assert (ran.code, ran.calls) == (0, SHIELDED)


def test_nodes_of_the_platform_have_no_firewall() -> None:
    # The metrics server asks the kubelet of its own node.
    assert set(parts(user_data(None, releases().runtimes))) == {"application/node.eks.aws"}


def test_a_node_drops_what_pods_send_to_it(tmp_path: Path) -> None:
    run(tmp_path, "runc", "exit 22")
    unit = (tmp_path / "pods-to-node.service").read_text().splitlines()
    assert [line.removeprefix("ExecStart=iptables -w ") for line in unit if line.startswith("ExecStart=")] == [
        "-N PODS-TO-NODE",
        "-A PODS-TO-NODE -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN",
        "-A PODS-TO-NODE -d 169.254.170.23 -p tcp --dport 80 -j RETURN",
        "-A PODS-TO-NODE -j DROP",
        "-I INPUT -i eni+ -j PODS-TO-NODE",
    ]
    assert {"Before=kubelet.service", "WantedBy=multi-user.target"} <= set(unit)


def test_a_node_without_its_firewall_never_joins(tmp_path: Path) -> None:
    failing = 'if [ "$1" = enable ]; then exit 1; fi'
    ran = run(tmp_path, "runc", "exit 22", systemctl=failing)
    assert ran.code != 0
    assert ran.calls[-3:] == CLOSED


@pytest.mark.parametrize("word", [None, "runc", "gvisor", "kata", "nitro"])
def test_every_node_limits_the_processes_of_a_pod(word: str | None) -> None:
    text = user_data(wall(word) if word else None, releases().runtimes)
    spec = yaml.safe_load(parts(text)["application/node.eks.aws"])["spec"]
    assert spec["kubelet"]["config"]["podPidsLimit"] == 4096


def test_the_archives_of_a_runtime_stay_neither_in_memory_nor_on_the_disk(tmp_path: Path) -> None:
    run(tmp_path, "kata", writing("archive"))
    assert not (tmp_path / "work").exists()
    script = parts(user_data(wall("kata"), FETCHED))["text/x-shellscript"]
    assert 'work="$(mktemp -d -p /var/tmp)"' in script


def test_a_kata_node_loads_the_modules_that_cloud_hypervisor_needs_and_no_others(tmp_path: Path) -> None:
    ran = run(tmp_path, "kata", writing(ARCHIVE.decode()))
    # `vhost_vsock` is missing in some kernels, and a node without a module that it demands never joins.
    assert [call for call in ran.calls if call.startswith("modprobe")] == ["modprobe -a kvm vhost vhost_net"]


# Kata's own configuration of Cloud Hypervisor, as its archive has it.
KATA_DEFAULTS = {
    "hypervisor": {"clh": {"default_memory": 2048}},
    "runtime": {"sandbox_cgroup_only": False, "static_sandbox_resource_mgmt": False},
}


def kata_memory(drop_in: dict[str, dict[str, Any]], limit: int) -> tuple[int, bool]:
    """Return a guest's memory at its start in MiB, and whether all of it is in the cgroup of its pod.

    As Kata does it: with static sizing a guest starts with `default_memory` and the limits of its containers (its
    module `oci`, sandbox sizing); with `sandbox_cgroup_only` the machine monitor is in the pod's cgroup (its design
    document "Host cgroup management"). A drop-in changes the keys that it has.
    """
    base = {**KATA_DEFAULTS["hypervisor"]["clh"], **drop_in.get("hypervisor", {}).get("clh", {})}["default_memory"]
    runtime = {**KATA_DEFAULTS["runtime"], **drop_in.get("runtime", {})}
    return base + limit * runtime["static_sandbox_resource_mgmt"], runtime["sandbox_cgroup_only"]


@pytest.mark.parametrize("limit", [128, 2048, 65536])
def test_the_memory_of_a_kata_guest_is_sized_by_its_pod_and_within_its_cgroup(tmp_path: Path, limit: int) -> None:
    overhead = Quantity.parse(wall("kata").overhead["memory"]).value / 2**20
    run(tmp_path, "kata", writing(ARCHIVE.decode()))
    guest, within = kata_memory(tomllib.loads((tmp_path / "50-pod-resources.toml").read_text()), limit)
    assert within
    # What is left is for the machine monitor, the file system daemon and the shim.
    assert (guest - limit, overhead - (guest - limit)) == (KATA_GUEST_MEMORY, KATA_NODE_MEMORY)
    # Without it: a guest of another size, outside of the cgroup.
    assert kata_memory({}, limit) == (2048, False)
