"""The pod of a sandbox runs workspaced at its own address, and its end is reported as by Kubernetes."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from agentenv.local import processes
from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape
from agentenv.rehearsal.scenario.command_probe import CommandRefused
from tests.live.controlplane.objects import TIMEOUT, runs
from tests.live.controlplane.sandboxes.conftest import SPACE, SandboxCluster
from tests.live.controlplane.sandboxes.pods import PORT, UID, Signer, keys_configmap, run, sandbox_pod

Object = dict[str, Any]


def processes_of(cluster: SandboxCluster) -> set[psutil.Process]:
    """Return the processes of every sandbox of the plane, also those that do not carry the run's mark."""
    found: set[psutil.Process] = set()
    for process in processes.marked(cluster.run_id):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
            if process.name() in {"podnetwork", "runsc"}:
                found |= {process, *process.children(recursive=True)}
    return {process for process in found if runs(process)}


def all_ended(cluster: SandboxCluster) -> bool:
    """Wait until no sandbox has a process: the kernel's may end after the runtime, and a lost node's after its pod."""
    return bool(until(lambda: not processes_of(cluster), TIMEOUT))


def memory_of(process: psutil.Process) -> int:
    """Return the proportional set size of a process; 0 after its end."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.memory_full_info().pss
    return 0


@pytest.fixture(autouse=True)
def no_pods(cluster: SandboxCluster) -> Iterator[None]:
    """Leave no pod and no process to the next test."""
    yield
    pods = cluster.client.get(cluster.path("")[:-1])["items"]
    for pod in pods:
        cluster.client.delete(cluster.path(pod["metadata"]["name"]))
    assert until(lambda: not cluster.client.get(cluster.path("")[:-1])["items"], TIMEOUT)
    assert all_ended(cluster), processes_of(cluster)


def container_of(pod: Object) -> Object:
    return pod["status"]["containerStatuses"][0]


def test_command_runs_as_the_user_of_the_template_in_its_home(cluster: SandboxCluster) -> None:
    pod = cluster.start("first")
    script = (
        "id -u; whoami; id -Gn; pwd; cat /etc/podinfo/uid; echo; uname -n; touch /etc/x 2>&1 | wc -l; cat /proc/net/dev"
    )
    uid, user, groups, home, pod_uid, hostname, refused, *interfaces = cluster.run(pod, script).stdout.splitlines()
    assert (uid, user, groups, home, pod_uid, hostname) == (
        str(UID),
        "user",
        "user",
        "/home/agent",
        pod["metadata"]["uid"],
        "first",
    )
    assert refused.strip() == "1"
    assert [line.split(":")[0].strip() for line in interfaces[2:]] == ["lo", "eth0"]


def test_pod_is_reached_at_its_address_with_its_token(cluster: SandboxCluster) -> None:
    first, second = cluster.start("one"), cluster.start("two")
    assert first["status"]["podIP"] != second["status"]["podIP"]
    assert run(first, cluster.signer, "true").code == 0
    with pytest.raises(CommandRefused, match="wrong_audience"):
        run({**first, "metadata": second["metadata"]}, cluster.signer, "true")
    with pytest.raises(CommandRefused, match="bad_signature"):
        run(first, Signer(), "true")
    cluster.delete("one")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((first["status"]["podIP"], PORT))
    cluster.delete("two")
    assert all_ended(cluster), processes_of(cluster)


def resources(cpu: str, memory: str, limit: str) -> Object:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": "4", "memory": limit}}


def resize(cluster: SandboxCluster, name: str, of: Object) -> None:
    change = {"spec": {"containers": [{"name": "sandbox", "resources": of}]}}
    content = "application/strategic-merge-patch+json"
    cluster.client.request("PATCH", cluster.path(name) + "/resize", change, content=content)


def shown(cluster: SandboxCluster, name: str) -> Object:
    return container_of(cluster.client.get(cluster.path(name)))["resources"]


def refusal(cluster: SandboxCluster, name: str) -> tuple[str, str] | None:
    conditions = cluster.client.get(cluster.path(name))["status"]["conditions"]
    rows = [row for row in conditions if row["type"].startswith("PodResize") and row["status"] == "True"]
    return (rows[0]["type"], rows[0]["reason"]) if rows else None


def test_resized_sandbox_has_its_new_limit(cluster: SandboxCluster) -> None:
    small, large = resources("100m", "128Mi", "256Mi"), resources("1", "512Mi", "1Gi")
    pod = cluster.start("sized", container={"resources": small})
    assert shown(cluster, "sized") == small
    resize(cluster, "sized", large)
    assert until(lambda: shown(cluster, "sized") == large, TIMEOUT)
    script = "python3 -c 'import time; block = bytearray(b\"x\" * (400 << 20)); time.sleep(4); print(len(block))'"
    assert cluster.run(pod, script).stdout == f"{400 << 20}\n"
    after = container_of(cluster.client.get(cluster.path("sized")))
    assert after["restartCount"] == 0
    assert pod["metadata"]["uid"] == cluster.client.get(cluster.path("sized"))["metadata"]["uid"]


def test_resize_beyond_the_nodes_capacity_is_deferred_or_refused(cluster: SandboxCluster) -> None:
    small = resources("100m", "128Mi", "256Mi")
    cluster.start("neighbour", container={"resources": resources("3", "128Mi", "256Mi")})
    cluster.start("cramped", container={"resources": small})
    for cpu, answer in (("1500m", ("PodResizePending", "Deferred")), ("4100m", ("PodResizePending", "Infeasible"))):
        more = resources(cpu, "128Mi", "256Mi")
        resize(cluster, "cramped", {**more, "limits": {**more["limits"], "cpu": "5"}})
        assert until(lambda answer=answer: refusal(cluster, "cramped") == answer, TIMEOUT)
        assert shown(cluster, "cramped")["requests"]["cpu"] == "100m"
    resize(cluster, "cramped", {**small, "limits": {**small["limits"], "cpu": "5"}})
    assert until(lambda: refusal(cluster, "cramped") is None, TIMEOUT)


def test_memory_in_use_is_not_removed(cluster: SandboxCluster) -> None:
    pod = cluster.start("full", container={"resources": resources("100m", "128Mi", "1Gi")})
    hold = 'python3 -c \'import time; block = bytearray(b"x" * (400 << 20)); open("held", "w"); time.sleep(60)\''
    cluster.run(pod, f"(setsid {hold} > /dev/null 2>&1 &); until [ -e held ]; do sleep 0.1; done")
    resize(cluster, "full", resources("100m", "128Mi", "256Mi"))
    assert until(lambda: refusal(cluster, "full") == ("PodResizeInProgress", "Error"), TIMEOUT)
    assert shown(cluster, "full")["limits"]["memory"] == "1Gi"
    assert container_of(cluster.client.get(cluster.path("full")))["restartCount"] == 0


def test_simulated_pod_is_resized(cluster: SandboxCluster) -> None:
    small, large = resources("100m", "128Mi", "256Mi"), resources("1", "512Mi", "1Gi")
    container = {"name": "sandbox", "image": "registry.example/other", "resources": small}
    metadata = {"name": "simulated", "namespace": SPACE}
    cluster.client.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    )
    cluster.ready("simulated")
    assert shown(cluster, "simulated") == small
    resize(cluster, "simulated", large)
    assert until(lambda: shown(cluster, "simulated") == large, TIMEOUT)


def test_home_outlives_its_pods_and_other_volumes_do_not(cluster: SandboxCluster) -> None:
    home, folder = cluster.home("home-1")
    (folder / "older").write_text("of the old layout\n", encoding="utf-8")
    pod = cluster.start("sleeper", home=home)
    trap = "trap 'echo ended > ended; exit' TERM; touch trapped; while :; do sleep 0.1; done"
    start = f'(setsid sh -c "{trap}" > /dev/null 2>&1 &)'
    script = f"echo mine > file; touch /tmp/file; {start}; until [ -e trapped ]; do sleep 0.1; done"
    assert cluster.run(pod, script).code == 0
    cluster.delete("sleeper")
    again = cluster.start("sleeper", home=home)
    assert cluster.run(again, "cat file ended older; ls /tmp/file; echo > other").stdout == (
        "mine\nended\nof the old layout\n"
    )
    cluster.delete("sleeper")
    assert (folder / "current" / "other").is_file()
    assert {path.name for path in folder.iterdir()} == {"current", "next", "state"}


def test_ended_container_is_restarted_with_its_exit_code_in_the_status(cluster: SandboxCluster) -> None:
    script = "[ -e /tmp/again ] && exec sleep 600; touch /tmp/again; exit 7"
    cluster.client.create(sandbox_pod(SPACE, "restarts", "/bin/sh", "-c", script))

    def restarted() -> Object | None:
        pod = cluster.client.get(cluster.path("restarts"))
        status = next(iter(pod["status"].get("containerStatuses") or ()), {})
        return pod if status.get("restartCount") == 1 and status["ready"] else None

    pod = until(restarted, TIMEOUT)
    assert container_of(pod)["lastState"]["terminated"]["exitCode"] == 7


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (3, "Failed", "Error")])
def test_pod_without_restarts_ends_with_its_container(
    cluster: SandboxCluster, code: int, phase: str, reason: str
) -> None:
    name = f"ends-{code}"
    cluster.client.create(sandbox_pod(SPACE, name, "/bin/sh", "-c", f"exit {code}", restartPolicy="Never"))
    assert until(lambda: cluster.client.get(cluster.path(name))["status"]["phase"] == phase, TIMEOUT)
    terminated = container_of(cluster.client.get(cluster.path(name)))["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (code, reason)


def test_container_over_its_memory_limit_is_killed(cluster: SandboxCluster) -> None:
    resources = {"requests": {"memory": "64Mi", "cpu": "10m"}, "limits": {"memory": "200Mi", "cpu": "1"}}
    pod = cluster.start("hungry", container={"resources": resources})
    with contextlib.suppress(CommandRefused, OSError, http.client.HTTPException):  # it ends with its container
        cluster.run(pod, "head -c 400000000 /dev/zero | tail -c 400000000 | sleep 600")

    def killed() -> bool:
        status = container_of(cluster.client.get(cluster.path("hungry")))
        return (status.get("lastState") or {}).get("terminated", {}).get("reason") == "OOMKilled"

    assert until(killed, TIMEOUT)
    assert container_of(cluster.client.get(cluster.path("hungry")))["lastState"]["terminated"]["exitCode"] == 137


def test_a_limit_of_processors_is_felt_and_follows_a_resize(cluster: SandboxCluster) -> None:
    small = {"requests": {"memory": "64Mi", "cpu": "10m"}, "limits": {"memory": "256Mi", "cpu": "200m"}}
    pod = cluster.start("slow", container={"resources": small})
    burn = "import time; end = time.monotonic() + 2\nwhile time.monotonic() < end: pass"
    assert cluster.run(pod, f"python3 -c '{burn}'").code == 0
    [folder] = cgroups_of(cluster)
    assert (folder / "cpu.cfs_quota_us").read_text() == "20000\n"
    assert int((folder / "cpu.stat").read_text().split()[3]) > 0, "it was never held back"
    resize(cluster, "slow", {**small, "limits": {**small["limits"], "cpu": "2"}})
    assert until(lambda: (folder / "cpu.cfs_quota_us").read_text() == "200000\n", TIMEOUT)
    cluster.delete("slow")
    assert not folder.exists()


def cgroups_of(cluster: SandboxCluster) -> list[Path]:
    return list(Path("/sys/fs/cgroup/cpu").rglob(f"agentenv-{cluster.run_id}-*"))


def test_pod_over_its_disk_limit_is_evicted(cluster: SandboxCluster) -> None:
    pod = sandbox_pod(SPACE, "full")
    next(row for row in pod["spec"]["volumes"] if row["name"] == "tmp")["emptyDir"] = {"sizeLimit": "1Mi"}
    cluster.client.create(pod)
    pod = cluster.ready("full")
    with contextlib.suppress(CommandRefused, OSError, http.client.HTTPException):
        cluster.run(pod, "head -c 3000000 /dev/zero > /tmp/file; sleep 600")
    assert until(lambda: cluster.client.get(cluster.path("full"))["status"]["phase"] == "Failed", TIMEOUT)
    status = cluster.client.get(cluster.path("full"))["status"]
    assert (status["reason"], status["message"]) == (
        "Evicted",
        'Usage of EmptyDir volume "tmp" exceeds the limit "1Mi". ',
    )


@pytest.mark.parametrize("program", ["podnetwork", "runsc"])
def test_killed_sandbox_leaves_no_process_and_is_restarted(cluster: SandboxCluster, program: str) -> None:
    """The cleanup process of a killed rehearsal finds these two by their mark, and nothing else of a sandbox."""
    cluster.start("killed")
    every = processes_of(cluster)
    [runtime] = [process for process in every if process.name() == program and "run" in process.cmdline()]
    assert len(every) > 2
    runtime.kill()
    assert until(lambda: not any(map(runs, every)), TIMEOUT), "its kernel still runs"

    def restarted() -> bool:
        status = container_of(cluster.client.get(cluster.path("killed")))
        return status["restartCount"] == 1 and status["ready"]

    assert until(restarted, TIMEOUT)
    assert container_of(cluster.client.get(cluster.path("killed")))["lastState"]["terminated"]["exitCode"] == 137


def test_missing_volume_is_in_the_status_of_a_pod(cluster: SandboxCluster) -> None:
    extra = {"name": "extra", "configMap": {"name": "extra"}}
    pod = sandbox_pod(SPACE, "waits")
    pod["spec"]["volumes"].append(extra)
    cluster.client.create(pod)

    def waiting() -> str:
        statuses = cluster.client.get(cluster.path("waits"))["status"].get("containerStatuses") or [{}]
        return statuses[0].get("state", {}).get("waiting", {}).get("message", "")

    assert until(lambda: 'configmap "extra" not found' in waiting(), TIMEOUT)
    metadata = {"name": "extra", "namespace": SPACE}
    cluster.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})
    cluster.ready("waits")


def test_rotated_key_is_mounted(cluster: SandboxCluster) -> None:
    pod = cluster.start("rotates")
    before, cluster.signer = cluster.signer, Signer()
    cluster.client.apply(keys_configmap(SPACE, cluster.signer))

    def admitted() -> bool:
        try:
            return cluster.run(pod, "true").code == 0
        except CommandRefused:
            return False

    assert until(admitted, TIMEOUT, every=0.2)
    with pytest.raises(CommandRefused):
        run(pod, before, "true")


def test_bytes_are_unchanged_in_both_directions(cluster: SandboxCluster) -> None:
    pod = cluster.start("bytes")
    data = bytes(range(256)) * 40_000
    headers = {"X-Workspace-Token": cluster.signer.token(pod["metadata"]["uid"])}
    connection = http.client.HTTPConnection(pod["status"]["podIP"], PORT, timeout=TIMEOUT)
    connection.request("POST", "/files?path=data", data, {**headers, "Content-Type": "application/octet-stream"})
    response = connection.getresponse()
    assert (response.status, bool(response.read())) == (200, True)
    connection.request("GET", "/files?path=data", headers=headers)
    assert connection.getresponse().read() == data
    connection.close()


def test_ten_sandboxes_run_at_once(cluster: SandboxCluster, record_property: Callable[[str, float], None]) -> None:
    names = [f"ten-{number}" for number in range(10)]
    began = time.monotonic()
    for name in names:
        cluster.client.create(sandbox_pod(SPACE, name))
    pods = [cluster.ready(name) for name in names]
    seconds = time.monotonic() - began
    memory = sum(map(memory_of, processes_of(cluster))) / 2**20
    record_property("ms_per_sandbox", seconds * 100)
    record_property("mb_per_sandbox", memory / 10)
    print(f"{seconds * 100:.0f} ms and {memory / 10:.0f} MB for each of ten sandboxes")
    assert len({pod["status"]["podIP"] for pod in pods}) == 10
    assert {cluster.run(pod, "echo hello").stdout for pod in pods} == {"hello\n"}
    for name in names:
        cluster.client.delete(cluster.path(name))
    assert until(lambda: not any(cluster.client.find(cluster.path(name)) for name in names), TIMEOUT)
    assert all_ended(cluster), processes_of(cluster)


def test_local_work_tree_survives_suspension_and_other_local_folders_do_not(cluster: SandboxCluster) -> None:
    home, folder = cluster.home("home-of-work")
    flags = {"WORK_TREE": "/work", "WORK_TREE_INTERVAL": "1h", "WORK_TREE_FLUSH": "30s"}
    spec = sandbox_pod(SPACE, "working", home=home)["spec"]
    container = spec["containers"][0]
    container["env"] += [{"name": f"WORKSPACED_{name}", "value": value} for name, value in flags.items()]
    container["volumeMounts"].append({"name": "work", "mountPath": "/work"})
    spec["volumes"].append({"name": "work", "emptyDir": {"sizeLimit": "100Mi"}})

    def start() -> Object:
        metadata = {"name": "working", "namespace": SPACE}
        cluster.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        return cluster.ready("working")

    script = "git init -q /work/repo && cd /work/repo && echo mine > file && ln -s file link && touch /tmp/other"
    assert cluster.run(start(), script).code == 0
    stored = folder / "current" / ".local" / "share" / "workspaced" / "work-tree"
    assert list(stored.iterdir()) == []
    cluster.delete("working")
    assert (stored / "repo" / "file").read_text(encoding="utf-8") == "mine\n"
    again = cluster.run(start(), "cd /work/repo && cat link && git status --porcelain; ls /tmp/other")
    assert again.stdout == "mine\n?? file\n?? link\n"


def test_lost_node_ends_its_sandboxes_and_leaves_their_homes(cluster: SandboxCluster) -> None:
    cluster.plane.add_nodes([NodeShape("lost", "us-east-1b", "m7g.large", "2", "7Gi", pods=10)])
    home, _ = cluster.home("home-of-lost")
    pod = cluster.start("of-lost", home=home, nodeSelector={"kubernetes.io/hostname": "lost"})
    assert pod["spec"]["nodeName"] == "lost"
    loop = "while :; do date > beat; sync; sleep 0.2; done"
    assert cluster.run(pod, f"echo mine > file; (setsid sh -c '{loop}' > /dev/null 2>&1 &)").code == 0
    cluster.client.delete("/api/v1/nodes/lost")
    # The node controller deletes their pods a minute later, without a grace period.
    assert until(lambda: cluster.client.find(cluster.path("of-lost")) is None, 3 * TIMEOUT)
    assert all_ended(cluster), processes_of(cluster)
    again = cluster.start("of-lost", home=home)
    assert again["spec"]["nodeName"] != "lost"
    assert cluster.run(again, "cat file; test -s beat && echo beat").stdout == "mine\nbeat\n"
