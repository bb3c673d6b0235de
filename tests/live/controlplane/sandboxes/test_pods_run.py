"""A sandbox's pod runs workspaced, is reached at its own address, and its end is what Kubernetes says it is."""

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
from tests.live.controlplane.objects import PATIENCE, runs
from tests.live.controlplane.sandboxes.conftest import SPACE, Ground
from tests.live.controlplane.sandboxes.pods import PORT, UID, Signer, keys_configmap, run, sandbox_pod

Object = dict[str, Any]


def processes_of(ground: Ground) -> set[psutil.Process]:
    """Return the processes of every sandbox of the plane, also those that do not carry the run's mark."""
    found: set[psutil.Process] = set()
    for process in processes.marked(ground.run_id):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
            if process.name() in {"podnetwork", "runsc"}:
                found |= {process, *process.children(recursive=True)}
    return {process for process in found if runs(process)}


def all_ended(ground: Ground) -> bool:
    """Wait until no sandbox has a process: the kernel's may end after the runtime, and a lost node's after its pod."""
    return bool(until(lambda: not processes_of(ground), PATIENCE))


def memory_of(process: psutil.Process) -> int:
    """Return the proportional set size of a process; 0 after its end."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.memory_full_info().pss
    return 0


@pytest.fixture(autouse=True)
def no_pods(ground: Ground) -> Iterator[None]:
    """Leave no pod and no process to the next test."""
    yield
    pods = ground.client.get(ground.path("")[:-1])["items"]
    for pod in pods:
        ground.client.delete(ground.path(pod["metadata"]["name"]))
    assert until(lambda: not ground.client.get(ground.path("")[:-1])["items"], PATIENCE)
    assert all_ended(ground), processes_of(ground)


def container_of(pod: Object) -> Object:
    return pod["status"]["containerStatuses"][0]


def test_a_command_runs_as_the_templates_user_in_its_home(ground: Ground) -> None:
    pod = ground.start("first")
    script = "id -u; whoami; pwd; cat /etc/podinfo/uid; echo; uname -n; touch /etc/x 2>&1 | wc -l; cat /proc/net/dev"
    uid, user, home, pod_uid, hostname, refused, *interfaces = ground.run(pod, script).stdout.splitlines()
    assert (uid, user, home, pod_uid, hostname) == (str(UID), "user", "/home/agent", pod["metadata"]["uid"], "first")
    assert refused.strip() == "1"
    assert [line.split(":")[0].strip() for line in interfaces[2:]] == ["lo", "eth0"]


def test_a_pod_is_reached_at_its_own_address_with_its_own_token(ground: Ground) -> None:
    first, second = ground.start("one"), ground.start("two")
    assert first["status"]["podIP"] != second["status"]["podIP"]
    assert run(first, ground.signer, "true").code == 0
    with pytest.raises(CommandRefused, match="wrong_audience"):
        run({**first, "metadata": second["metadata"]}, ground.signer, "true")
    with pytest.raises(CommandRefused, match="bad_signature"):
        run(first, Signer(), "true")
    ground.delete("one")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((first["status"]["podIP"], PORT))
    ground.delete("two")
    assert all_ended(ground), processes_of(ground)


def resources(cpu: str, memory: str, limit: str) -> Object:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": "4", "memory": limit}}


def resize(ground: Ground, name: str, of: Object) -> None:
    change = {"spec": {"containers": [{"name": "sandbox", "resources": of}]}}
    content = "application/strategic-merge-patch+json"
    ground.client.request("PATCH", ground.path(name) + "/resize", change, content=content)


def shown(ground: Ground, name: str) -> Object:
    return container_of(ground.client.get(ground.path(name)))["resources"]


def refusal(ground: Ground, name: str) -> tuple[str, str] | None:
    conditions = ground.client.get(ground.path(name))["status"]["conditions"]
    rows = [row for row in conditions if row["type"].startswith("PodResize") and row["status"] == "True"]
    return (rows[0]["type"], rows[0]["reason"]) if rows else None


def test_a_sandbox_is_resized_and_its_new_limit_is_felt(ground: Ground) -> None:
    small, large = resources("100m", "128Mi", "256Mi"), resources("1", "512Mi", "1Gi")
    pod = ground.start("sized", container={"resources": small})
    assert shown(ground, "sized") == small
    resize(ground, "sized", large)
    assert until(lambda: shown(ground, "sized") == large, PATIENCE)
    script = "python3 -c 'import time; block = bytearray(b\"x\" * (400 << 20)); time.sleep(4); print(len(block))'"
    assert ground.run(pod, script).stdout == f"{400 << 20}\n"
    after = container_of(ground.client.get(ground.path("sized")))
    assert after["restartCount"] == 0
    assert pod["metadata"]["uid"] == ground.client.get(ground.path("sized"))["metadata"]["uid"]


def test_a_node_without_room_refuses_and_the_sandbox_stays_as_it_was(ground: Ground) -> None:
    small = resources("100m", "128Mi", "256Mi")
    ground.start("neighbour", container={"resources": resources("3", "128Mi", "256Mi")})
    ground.start("cramped", container={"resources": small})
    for cpu, answer in (("1500m", ("PodResizePending", "Deferred")), ("4100m", ("PodResizePending", "Infeasible"))):
        more = resources(cpu, "128Mi", "256Mi")
        resize(ground, "cramped", {**more, "limits": {**more["limits"], "cpu": "5"}})
        assert until(lambda answer=answer: refusal(ground, "cramped") == answer, PATIENCE)
        assert shown(ground, "cramped")["requests"]["cpu"] == "100m"
    resize(ground, "cramped", {**small, "limits": {**small["limits"], "cpu": "5"}})
    assert until(lambda: refusal(ground, "cramped") is None, PATIENCE)


def test_memory_in_use_is_not_taken_away(ground: Ground) -> None:
    pod = ground.start("full", container={"resources": resources("100m", "128Mi", "1Gi")})
    hold = 'python3 -c \'import time; block = bytearray(b"x" * (400 << 20)); open("held", "w"); time.sleep(60)\''
    ground.run(pod, f"(setsid {hold} > /dev/null 2>&1 &); until [ -e held ]; do sleep 0.1; done")
    resize(ground, "full", resources("100m", "128Mi", "256Mi"))
    assert until(lambda: refusal(ground, "full") == ("PodResizeInProgress", "Error"), PATIENCE)
    assert shown(ground, "full")["limits"]["memory"] == "1Gi"
    assert container_of(ground.client.get(ground.path("full")))["restartCount"] == 0


def test_a_simulated_pod_is_resized_too(ground: Ground) -> None:
    small, large = resources("100m", "128Mi", "256Mi"), resources("1", "512Mi", "1Gi")
    container = {"name": "sandbox", "image": "registry.example/other", "resources": small}
    metadata = {"name": "simulated", "namespace": SPACE}
    ground.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
    ground.ready("simulated")
    assert shown(ground, "simulated") == small
    resize(ground, "simulated", large)
    assert until(lambda: shown(ground, "simulated") == large, PATIENCE)


def test_a_home_outlives_its_pods_and_other_volumes_do_not(ground: Ground) -> None:
    home, folder = ground.home("home-1")
    (folder / "older").write_text("of the old layout\n", encoding="utf-8")
    pod = ground.start("sleeper", home=home)
    trap = "trap 'echo ended > ended; exit' TERM; touch trapped; while :; do sleep 0.1; done"
    start = f'(setsid sh -c "{trap}" > /dev/null 2>&1 &)'
    script = f"echo mine > file; touch /tmp/file; {start}; until [ -e trapped ]; do sleep 0.1; done"
    assert ground.run(pod, script).code == 0
    ground.delete("sleeper")
    again = ground.start("sleeper", home=home)
    assert ground.run(again, "cat file ended older; ls /tmp/file; echo > other").stdout == (
        "mine\nended\nof the old layout\n"
    )
    ground.delete("sleeper")
    assert (folder / "current" / "other").is_file()
    assert {path.name for path in folder.iterdir()} == {"current", "next", "state"}


def test_a_container_that_ends_is_started_again_with_its_exit_code_in_the_status(ground: Ground) -> None:
    script = "[ -e /tmp/again ] && exec sleep 600; touch /tmp/again; exit 7"
    ground.client.create(sandbox_pod(SPACE, "restarts", "/bin/sh", "-c", script))

    def restarted() -> Object | None:
        pod = ground.client.get(ground.path("restarts"))
        status = next(iter(pod["status"].get("containerStatuses") or ()), {})
        return pod if status.get("restartCount") == 1 and status["ready"] else None

    pod = until(restarted, PATIENCE)
    assert container_of(pod)["lastState"]["terminated"]["exitCode"] == 7


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (3, "Failed", "Error")])
def test_a_pod_that_is_never_restarted_ends_with_its_container(
    ground: Ground, code: int, phase: str, reason: str
) -> None:
    name = f"ends-{code}"
    ground.client.create(sandbox_pod(SPACE, name, "/bin/sh", "-c", f"exit {code}", restartPolicy="Never"))
    assert until(lambda: ground.client.get(ground.path(name))["status"]["phase"] == phase, PATIENCE)
    terminated = container_of(ground.client.get(ground.path(name)))["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (code, reason)


def test_a_container_over_its_memory_is_killed(ground: Ground) -> None:
    resources = {"requests": {"memory": "64Mi", "cpu": "10m"}, "limits": {"memory": "200Mi", "cpu": "1"}}
    pod = ground.start("hungry", container={"resources": resources})
    with contextlib.suppress(CommandRefused, OSError, http.client.HTTPException):  # it ends with its container
        ground.run(pod, "head -c 400000000 /dev/zero | tail -c 400000000 | sleep 600")

    def killed() -> bool:
        status = container_of(ground.client.get(ground.path("hungry")))
        return (status.get("lastState") or {}).get("terminated", {}).get("reason") == "OOMKilled"

    assert until(killed, PATIENCE)
    assert container_of(ground.client.get(ground.path("hungry")))["lastState"]["terminated"]["exitCode"] == 137


def test_a_limit_of_processors_is_felt_and_follows_a_resize(ground: Ground) -> None:
    small = {"requests": {"memory": "64Mi", "cpu": "10m"}, "limits": {"memory": "256Mi", "cpu": "200m"}}
    pod = ground.start("slow", container={"resources": small})
    burn = "import time; end = time.monotonic() + 2\nwhile time.monotonic() < end: pass"
    assert ground.run(pod, f"python3 -c '{burn}'").code == 0
    [folder] = cgroups_of(ground)
    assert (folder / "cpu.cfs_quota_us").read_text() == "20000\n"
    assert int((folder / "cpu.stat").read_text().split()[3]) > 0, "it was never held back"
    resize(ground, "slow", {**small, "limits": {**small["limits"], "cpu": "2"}})
    assert until(lambda: (folder / "cpu.cfs_quota_us").read_text() == "200000\n", PATIENCE)
    ground.delete("slow")
    assert not folder.exists()


def cgroups_of(ground: Ground) -> list[Path]:
    return list(Path("/sys/fs/cgroup/cpu").rglob(f"agentenv-{ground.run_id}-*"))


def test_a_pod_over_its_disk_is_evicted(ground: Ground) -> None:
    pod = sandbox_pod(SPACE, "full")
    next(row for row in pod["spec"]["volumes"] if row["name"] == "tmp")["emptyDir"] = {"sizeLimit": "1Mi"}
    ground.client.create(pod)
    pod = ground.ready("full")
    with contextlib.suppress(CommandRefused, OSError, http.client.HTTPException):
        ground.run(pod, "head -c 3000000 /dev/zero > /tmp/file; sleep 600")
    assert until(lambda: ground.client.get(ground.path("full"))["status"]["phase"] == "Failed", PATIENCE)
    status = ground.client.get(ground.path("full"))["status"]
    assert (status["reason"], status["message"]) == (
        "Evicted",
        'Usage of EmptyDir volume "tmp" exceeds the limit "1Mi". ',
    )


@pytest.mark.parametrize("program", ["podnetwork", "runsc"])
def test_a_killed_sandbox_leaves_no_process_and_is_started_again(ground: Ground, program: str) -> None:
    """The cleanup process of a killed rehearsal finds these two by their mark, and nothing else of a sandbox."""
    ground.start("killed")
    every = processes_of(ground)
    [runtime] = [process for process in every if process.name() == program and "run" in process.cmdline()]
    assert len(every) > 2
    runtime.kill()
    assert until(lambda: not any(map(runs, every)), PATIENCE), "its kernel runs on"

    def restarted() -> bool:
        status = container_of(ground.client.get(ground.path("killed")))
        return status["restartCount"] == 1 and status["ready"]

    assert until(restarted, PATIENCE)
    assert container_of(ground.client.get(ground.path("killed")))["lastState"]["terminated"]["exitCode"] == 137


def test_what_a_pod_lacks_is_in_its_status_until_it_is_there(ground: Ground) -> None:
    extra = {"name": "extra", "configMap": {"name": "extra"}}
    pod = sandbox_pod(SPACE, "waits")
    pod["spec"]["volumes"].append(extra)
    ground.client.create(pod)

    def waiting() -> str:
        statuses = ground.client.get(ground.path("waits"))["status"].get("containerStatuses") or [{}]
        return statuses[0].get("state", {}).get("waiting", {}).get("message", "")

    assert until(lambda: 'configmap "extra" not found' in waiting(), PATIENCE)
    metadata = {"name": "extra", "namespace": SPACE}
    ground.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})
    ground.ready("waits")


def test_a_rotated_key_arrives(ground: Ground) -> None:
    pod = ground.start("rotates")
    before, ground.signer = ground.signer, Signer()
    ground.client.apply(keys_configmap(SPACE, ground.signer))

    def admitted() -> bool:
        try:
            return ground.run(pod, "true").code == 0
        except CommandRefused:
            return False

    assert until(admitted, PATIENCE, every=0.2)
    with pytest.raises(CommandRefused):
        run(pod, before, "true")


def test_bytes_arrive_whole_in_both_directions(ground: Ground) -> None:
    pod = ground.start("bytes")
    data = bytes(range(256)) * 40_000
    headers = {"X-Workspace-Token": ground.signer.token(pod["metadata"]["uid"])}
    connection = http.client.HTTPConnection(pod["status"]["podIP"], PORT, timeout=PATIENCE)
    connection.request("POST", "/files?path=data", data, {**headers, "Content-Type": "application/octet-stream"})
    response = connection.getresponse()
    assert (response.status, bool(response.read())) == (200, True)
    connection.request("GET", "/files?path=data", headers=headers)
    assert connection.getresponse().read() == data
    connection.close()


def test_ten_sandboxes_cost_little(ground: Ground, record_property: Callable[[str, float], None]) -> None:
    names = [f"ten-{number}" for number in range(10)]
    began = time.monotonic()
    for name in names:
        ground.client.create(sandbox_pod(SPACE, name))
    pods = [ground.ready(name) for name in names]
    seconds = time.monotonic() - began
    memory = sum(map(memory_of, processes_of(ground))) / 2**20
    record_property("ms_per_sandbox", seconds * 100)
    record_property("mb_per_sandbox", memory / 10)
    print(f"{seconds * 100:.0f} ms and {memory / 10:.0f} MB for each of ten sandboxes")
    assert len({pod["status"]["podIP"] for pod in pods}) == 10
    assert {ground.run(pod, "echo hello").stdout for pod in pods} == {"hello\n"}
    for name in names:
        ground.client.delete(ground.path(name))
    assert until(lambda: not any(ground.client.find(ground.path(name)) for name in names), PATIENCE)
    assert all_ended(ground), processes_of(ground)


def test_a_local_work_tree_is_there_after_sleep_and_another_local_folder_is_not(ground: Ground) -> None:
    home, folder = ground.home("home-of-work")
    flags = {"WORK_TREE": "/work", "WORK_TREE_INTERVAL": "1h", "WORK_TREE_FLUSH": "30s"}
    spec = sandbox_pod(SPACE, "working", home=home)["spec"]
    container = spec["containers"][0]
    container["env"] += [{"name": f"WORKSPACED_{name}", "value": value} for name, value in flags.items()]
    container["volumeMounts"].append({"name": "work", "mountPath": "/work"})
    spec["volumes"].append({"name": "work", "emptyDir": {"sizeLimit": "100Mi"}})

    def start() -> Object:
        metadata = {"name": "working", "namespace": SPACE}
        ground.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        return ground.ready("working")

    script = "git init -q /work/repo && cd /work/repo && echo mine > file && ln -s file link && touch /tmp/other"
    assert ground.run(start(), script).code == 0
    stored = folder / "current" / ".local" / "share" / "workspaced" / "work-tree"
    assert list(stored.iterdir()) == []
    ground.delete("working")
    assert (stored / "repo" / "file").read_text(encoding="utf-8") == "mine\n"
    again = ground.run(start(), "cd /work/repo && cat link && git status --porcelain; ls /tmp/other")
    assert again.stdout == "mine\n?? file\n?? link\n"


def test_a_lost_node_takes_its_sandboxes_and_leaves_their_homes(ground: Ground) -> None:
    ground.plane.add_nodes([NodeShape("lost", "us-east-1b", "m7g.large", "2", "7Gi", pods=10)])
    home, _ = ground.home("home-of-lost")
    pod = ground.start("of-lost", home=home, nodeSelector={"kubernetes.io/hostname": "lost"})
    assert pod["spec"]["nodeName"] == "lost"
    loop = "while :; do date > beat; sync; sleep 0.2; done"
    assert ground.run(pod, f"echo mine > file; (setsid sh -c '{loop}' > /dev/null 2>&1 &)").code == 0
    ground.client.delete("/api/v1/nodes/lost")
    # The controller of nodes deletes their pods a minute later, without a grace period: nobody is left to wait for.
    assert until(lambda: ground.client.find(ground.path("of-lost")) is None, 3 * PATIENCE)
    assert all_ended(ground), processes_of(ground)
    again = ground.start("of-lost", home=home)
    assert again["spec"]["nodeName"] != "lost"
    assert ground.run(again, "cat file; test -s beat && echo beat").stdout == "mine\nbeat\n"
