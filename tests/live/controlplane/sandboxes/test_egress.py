"""Policies are felt in sandboxes: ordinary programs reach what the class's NetworkPolicy grants, and nothing else."""

from __future__ import annotations

import functools
import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL, ClusterFacts, class_pods
from agentenv.core.capabilities.grants import Grant, Named, OtherClass
from agentenv.core.capabilities.policies.network_policy import dns_settings, network_policy
from agentenv.core.capabilities.resolve import reach_of
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import pod_ports_of
from agentenv.core.capabilities.sets.reach import NOTHING, Reach
from agentenv.local.sandboxes import addresses
from agentenv.rehearsal.controlplane.sandboxes.network_policies import OUTSIDE
from tests.live.controlplane.objects import create_namespace
from tests.live.controlplane.sandboxes.conftest import SandboxCluster
from tests.live.controlplane.sandboxes.pods import PORT, keys_configmap, sandbox_pod

Object = dict[str, Any]

HERE = ClusterFacts(vpc=("10.40.0.0/16",), services=("172.20.0.0/16",), api=("198.51.100.7",))
NAME, ADDRESS = "git.example.com", "140.82.112.3"
SERVED = "served to sandboxes\n"
_LET_IN = Reach(pod_ports=pod_ports_of(class_pods("near"), ("TCP",), Intervals.single(8080)))


@pytest.fixture(scope="module", autouse=True)
def server(cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A server with a file and a repository, which stands for a public address."""
    folder: Path = tmp_path_factory.mktemp("served")
    (folder / "file").write_text(SERVED, encoding="utf-8")
    git = functools.partial(subprocess.run, check=True, capture_output=True, cwd=folder)
    git(["git", "init", "-q", "work"])
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    git(["git", "-C", "work", *author, "commit", "-q", "--allow-empty", "-m", "first"])
    git(["git", "clone", "-q", "--bare", "work", "repo.git"])
    git(["git", "-C", "repo.git", "update-server-info"])
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        outside = {"names": {NAME: ADDRESS}, "addresses": {f"{ADDRESS}:443": f"127.0.0.1:{server.server_port}"}}
        (cluster.plane.layout.folder / OUTSIDE).write_text(json.dumps(outside), encoding="utf-8")
        yield
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's
        """Write nothing."""


def sandbox(cluster: SandboxCluster, of_class: str, *grants: Grant, ingress: Reach = NOTHING) -> Object:
    """Return a running sandbox of a class with these capabilities."""
    namespace = create_namespace(cluster.client, f"sandbox-{of_class}")
    cluster.client.apply(keys_configmap(namespace, cluster.signer))
    cluster.client.apply(network_policy(of_class, reach_of(grants, HERE), HERE, ingress))
    pod = sandbox_pod(namespace, of_class, **dns_settings(granted=Named("dns") in grants, cluster=HERE))
    pod["metadata"]["labels"] = {CLASS_LABEL: of_class}
    cluster.client.create(pod)
    return cluster.ready(of_class, namespace)


def curl(cluster: SandboxCluster, pod: Object, *urls: str) -> list[str]:
    """Return for each URL what was served, or the exit code of curl."""
    row = "curl --silent --show-error --connect-timeout 4 --max-time 30 {} 2> /dev/null || echo $?"
    return cluster.run(pod, "\n".join(row.format(url) for url in urls)).stdout.splitlines()


NO_SUCH_NAME, REFUSED, NO_ANSWER = "6", "7", "28"


def test_a_class_without_capabilities_reaches_nothing(cluster: SandboxCluster) -> None:
    neighbour = addresses.inside(sandbox(cluster, "apart")["status"]["podIP"])
    pod = sandbox(cluster, "closed")
    places = [f"http://{ADDRESS}:443/file", "http://169.254.169.254/", f"http://{neighbour}:{PORT}/health",
              "http://172.20.0.10:53/", "https://172.20.0.1/"]  # fmt: skip
    assert curl(cluster, pod, f"http://{NAME}:443/file", *places) == [NO_SUCH_NAME, *[NO_ANSWER] * len(places)]
    assert cluster.run(pod, "cat /etc/resolv.conf").stdout.startswith("nameserver 127.0.0.1\n")


def test_the_web_is_reached_by_name_and_metadata_and_neighbours_never(cluster: SandboxCluster) -> None:
    neighbour = addresses.inside(sandbox(cluster, "beside", Named("web"))["status"]["podIP"])
    pod = sandbox(cluster, "open", Named("dns"), Named("web"))
    assert curl(
        cluster, pod, f"http://{NAME}:443/file", f"http://{ADDRESS}:443/file", f"http://{ADDRESS}:8443/file",
        "http://169.254.169.254/", f"http://{neighbour}:{PORT}/health", f"http://{neighbour}:443/",
        "http://no-such.example.com:443/", "http://140.82.112.4:443/",
    ) == [
        *[SERVED.strip()] * 2, NO_ANSWER, NO_ANSWER, NO_ANSWER, NO_ANSWER, NO_SUCH_NAME, REFUSED,
    ]  # fmt: skip
    cloned = cluster.run(pod, f"git clone -q http://{NAME}:443/repo.git && git -C repo log --format=%s")
    assert cloned.stdout == "first\n", cloned.stderr


def test_a_policy_that_is_taken_away_is_felt_by_new_connections(cluster: SandboxCluster) -> None:
    pod = sandbox(cluster, "changing", Named("web"))
    url = f"http://{ADDRESS}:443/file"
    assert curl(cluster, pod, url) == [SERVED.strip()]
    cluster.client.apply(network_policy("changing", NOTHING, HERE))
    until_gone = f"while curl --silent --max-time 1 {url} > /dev/null; do :; done; echo gone"
    assert cluster.run(pod, until_gone).stdout == "gone\n"


def test_another_class_is_reached_at_the_port_that_both_grant(cluster: SandboxCluster) -> None:
    callee = sandbox(cluster, "callee", ingress=_LET_IN)
    grants = (OtherClass("callee", Intervals.single(8080)),)
    near, far = sandbox(cluster, "near", *grants), sandbox(cluster, "far", *grants)
    serve = "mkdir -p served && echo from callee > served/file && cd served && setsid python3 -m http.server 8080"
    listening = "until curl --silent http://127.0.0.1:8080/file; do sleep 0.1; done"
    assert cluster.run(callee, f"({serve} > /dev/null 2>&1 &); {listening}").stdout == "from callee\n"
    address = addresses.inside(callee["status"]["podIP"])
    url = f"http://{address}:8080/file"
    assert curl(cluster, near, url, f"http://{address}:{PORT}/health") == ["from callee", NO_ANSWER]
    assert curl(cluster, far, url) == [NO_ANSWER]
    assert curl(cluster, callee, "http://127.0.0.1:8080/file") == ["from callee"]


def test_many_connections_one_after_the_other_all_succeed(cluster: SandboxCluster) -> None:
    pod = sandbox(cluster, "many", Named("web"))
    # A busy machine may give up a handshake, as any network may
    curl_again = "curl --silent --show-error --max-time 20 --retry 3 --retry-all-errors"
    script = f"for n in $(seq 200); do {curl_again} http://{ADDRESS}:443/file 2> errors || cat errors; done"
    assert cluster.run(pod, f"{script} | sort | uniq -c", seconds=200).stdout.split(None, 1) == ["200", SERVED]
