"""Tests of the network gate: its script under a real shell, and the probe addresses of classes.

`nc` is a stand-in, because a bare machine has none; what it does on the wire is real: it listens and connects on
loopback, and tells by its exit code what came of it.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentenv.config import Settings
from agentenv.core.capabilities.cluster_facts import ClusterFacts
from agentenv.core.capabilities.from_settings import cluster_facts
from agentenv.core.classes.pods.network_gate import (
    BOUND_SECONDS,
    SILENT_ROUNDS,
    gate_container,
    gate_image,
    gate_note,
    script,
)
from agentenv.core.nodes.mirrors import Mirrors
from tests.fast.config.stack_samples import fargate, sandbox, settings

NC = f"""#!{sys.executable} -IS
import socket, sys
options = sys.argv[1:]
if options[0] == "-l":
    with socket.create_server((options[2], int(options[4]))) as listener:
        listener.accept()
    sys.exit(0)
assert options[:3] == ["-z", "-w", "1"], options
try:
    socket.create_connection((options[3], int(options[4])), 1).close()
except OSError:
    sys.exit(1)
"""
# The same, but for one host it answers as it is told to, call by call.
RECORDING_NC = NC.replace(
    "try:",
    """if options[3] == "told":
    with open(__file__ + ".told", "r+") as told:
        words = told.read().split()
        told.seek(0), told.truncate(), told.write(" ".join(words[1:]))
    sys.exit(words[0] != "answer")
try:""",
)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the gate with these addresses, under the machine's own shell."""

    def run(*addresses: str, nc: str = NC, seconds: int = 1) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "nc"
        program.write_text(nc, encoding="utf-8")
        program.chmod(0o755)
        return subprocess.run(
            ["/bin/sh", "-c", script(), "gate", str(seconds), str(SILENT_ROUNDS), "standard", *addresses],
            env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@contextmanager
def answering(most: int | None = None) -> Iterator[str]:
    """Something on loopback that answers, until it has answered so often; its address as the gate is given it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        over = threading.Event()

        def answer() -> None:
            count = 0
            while not over.is_set() and (most is None or count < most):
                with suppress(TimeoutError):
                    listener.accept()[0].close()
                    count += 1
            listener.close()

        thread = threading.Thread(target=answer)
        thread.start()
        host, port = listener.getsockname()
        try:
            yield f"{host} {port}"
        finally:
            over.set()
            thread.join()


def free() -> str:
    """An address where nobody is."""
    with socket.create_server(("127.0.0.1", 0)) as once:
        host, port = once.getsockname()
    return f"{host} {port}"


def test_the_gate_fails_at_its_bound_if_nothing_is_enforced(run: Any) -> None:
    with answering() as address:
        ended = run(address)
    assert ended.returncode == 1
    assert f"gate of class standard: {address} was not granted and still answers after 1 s" in ended.stderr
    assert "nothing enforces the NetworkPolicy" in ended.stderr


def test_the_gate_waits_for_a_policy_that_is_enforced_late(run: Any) -> None:
    with answering(most=3) as address:
        ended = run(address, seconds=30)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "denied after" in ended.stdout


def test_the_gate_exits_if_the_policy_is_enforced_from_the_start(run: Any) -> None:
    ended = run(free(), free())
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_gate_waits_while_any_address_answers(run: Any) -> None:
    with answering() as address:
        for addresses in ((address, free()), (free(), address)):
            ended = run(*addresses)
            assert ended.returncode == 1
            assert f"{address} was not granted" in ended.stderr


def test_one_lost_probe_is_not_a_denial(run: Any, tmp_path: Path) -> None:
    # A lost packet between two answers, and then the policy.
    recorded = tmp_path / "nc.told"
    recorded.write_text("answer silence answer silence silence silence", encoding="utf-8")
    assert run("told 1", nc=RECORDING_NC, seconds=30).returncode == 0
    assert recorded.read_text() == "silence"


def test_a_broken_probe_is_not_a_denial(run: Any) -> None:
    ended = run(free(), nc="#!/bin/sh\nexit 1\n")
    assert ended.returncode == 1
    assert "its probe does not reach even a listener of its own" in ended.stderr


@pytest.mark.parametrize("addresses", [(), ("$(KUBERNETES_SERVICE_HOST) $(KUBERNETES_SERVICE_PORT)",), (" 443",)])
def test_an_empty_address_is_not_a_denial(run: Any, addresses: tuple[str, ...]) -> None:
    ended = run(*addresses)
    assert ended.returncode == 1
    assert "there is no address to ask for" in ended.stderr


# Which class asks for what


def settings_and_facts(**changes: Any) -> tuple[Settings, ClusterFacts]:
    found = settings({"sandboxClasses": [sandbox(**changes)]})
    return found, cluster_facts(found)


def probed(**changes: Any) -> list[str]:
    found, cluster = settings_and_facts(**changes)
    container = gate_container(found.sandbox_classes[0], cluster, "image")
    return [] if container is None else container["args"][3:]


API, RESOLVER, OF_VPC = "172.20.0.1 443", "172.20.0.10 53", "10.40.0.2 53"


@pytest.mark.parametrize(
    ("capabilities", "addresses"),
    [
        ([], [API, RESOLVER]),
        (["dns", "web", "git"], [API, OF_VPC]),
        (["api-server"], [RESOLVER, OF_VPC]),
        (["dns", "api-server"], [OF_VPC]),
        (["vpc"], [API]),
        (["dns", "vpc"], [API]),
    ],
)
def test_only_denied_addresses_are_probed(capabilities: list[str], addresses: list[str]) -> None:
    assert probed(capabilities=capabilities) == addresses


def test_a_class_that_is_granted_every_probe_address_has_no_gate() -> None:
    found, cluster = settings_and_facts(capabilities=["dns", "vpc", "api-server"])
    class_ = found.sandbox_classes[0]
    assert gate_container(class_, cluster, "image") is None
    assert "strict mode" in gate_note(class_, cluster)
    other, there = settings_and_facts(capabilities=["vpc"])
    assert gate_note(other.sandbox_classes[0], there) == ""


def test_in_an_adopted_cluster_the_api_server_comes_from_the_environment() -> None:
    recorded = "$(KUBERNETES_SERVICE_HOST) $(KUBERNETES_SERVICE_PORT)"
    found, cluster = settings_and_facts(capabilities=["dns"])
    class_ = found.sandbox_classes[0]
    there = replace(cluster, services=None, vpc=None, pods=None)
    container = gate_container(class_, there, "image")
    assert container is not None
    assert container["args"][3:] == [recorded]
    reaching, _ = settings_and_facts(capabilities=["api-server"])
    assert gate_container(reaching.sandbox_classes[0], there, "image") is None


def test_ipv6_clusters_are_probed_by_ipv6_addresses() -> None:
    found, cluster = settings_and_facts()
    there = replace(cluster, versions=(6,), services=("fd12:3456::/108",))
    container = gate_container(found.sandbox_classes[0], there, "image")
    assert container is not None
    assert container["args"][3:] == ["fd12:3456::1 443", "fd12:3456::a 53"]


def test_fargate_classes_have_no_gate() -> None:
    found = settings({"sandboxClasses": [fargate()]})
    cluster = cluster_facts(found)
    assert gate_container(found.sandbox_classes[0], cluster, "image") is None
    assert gate_note(found.sandbox_classes[0], cluster) == ""


def test_the_gate_is_hardened_and_adds_no_requests() -> None:
    found, cluster = settings_and_facts(resources={"cpu": "5m", "memory": "8Mi", "ephemeral": "1Gi"})
    container = gate_container(found.sandbox_classes[0], cluster, "image")
    assert container is not None
    security = container["securityContext"]
    assert security["runAsNonRoot"] is security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is security["privileged"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    # The pod's own user, which the access point knows; the gate brings none.
    assert "runAsUser" not in security
    assert container["resources"]["requests"] == {"cpu": "5m", "memory": "8Mi", "ephemeral-storage": "4Mi"}
    assert container["resources"]["limits"] == {"cpu": "5m", "memory": "8Mi", "ephemeral-storage": "4Mi"}
    assert "env" not in container
    assert "volumeMounts" not in container


def test_the_termination_message_has_the_reason() -> None:
    found, cluster = settings_and_facts()
    container = gate_container(found.sandbox_classes[0], cluster, "image")
    assert container is not None
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert container["args"][:3] == [str(BOUND_SECONDS), str(SILENT_ROUNDS), "standard"]


def test_the_script_has_no_variable_references_of_kubernetes() -> None:
    # It replaces $(NAME) where there is such a variable, and makes one of two dollars.
    assert "$$" not in script()
    assert not re.search(r"\$\([A-Za-z_][A-Za-z0-9_]*\)", script())


def test_the_image_is_pinned_by_digest_and_taken_from_the_mirror() -> None:
    assert re.fullmatch(r"[a-z0-9./-]+:[0-9.]+@sha256:[0-9a-f]{64}", gate_image(Mirrors()))
    mirrored = gate_image(Mirrors(registry="111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror"))
    assert mirrored.startswith("111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror/")
    assert mirrored.partition("@")[2] == gate_image(Mirrors()).partition("@")[2]
