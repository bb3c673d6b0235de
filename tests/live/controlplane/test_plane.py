"""The plane itself: who gets in, what is decided, and that nothing stays behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from agentenv.local import processes, run_folders
from agentenv.rehearsal.controlplane.client import ApiError, Credentials, until
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests.live.conftest import World
from tests.live.controlplane.objects import PATIENCE, becomes_ready, condition, namespace, pod


def test_it_is_the_version_and_the_issuer_that_were_asked_for(world: World) -> None:
    assert world.plane.client.get("/version")["gitVersion"].startswith("v1.35.")
    assert world.plane.client.get("/.well-known/openid-configuration")["issuer"] == world.plane.issuer


def test_nobody_may_see_the_version_and_nothing_else(world: World) -> None:
    nobody = world.plane.client_as(Credentials())
    assert nobody.get("/version")["major"] == "1"
    for path in ("/api/v1/namespaces", "/api/v1/secrets", "/apis", "/metrics"):
        with pytest.raises(ApiError, match="system:anonymous") as refused:
            nobody.get(path)
        assert refused.value.status == 403
    with pytest.raises(ApiError) as refused:
        world.plane.client_as(Credentials(token=lambda: "made-up")).get("/version")
    assert refused.value.status == 401


def test_a_service_account_may_do_what_it_was_given(world: World) -> None:
    admin, space = world.plane.client, namespace(world.plane.client, "accounts")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    token = admin.request("POST", f"/api/v1/namespaces/{space}/serviceaccounts/default/token", request)["status"][
        "token"
    ]
    account = world.plane.client_as(Credentials(token=lambda: token))
    secrets = f"/api/v1/namespaces/{space}/secrets"
    with pytest.raises(ApiError, match=f"system:serviceaccount:{space}:default"):
        account.get(secrets)
    about = {"name": "reads", "namespace": space}
    rbac = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]
    admin.apply({"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": about, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": space}
    role = {"apiGroup": rbac, "kind": "Role", "name": "reads"}
    admin.apply(
        {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": about, "roleRef": role, "subjects": [subject]}
    )
    assert until(lambda: account.get(secrets)["kind"] == "SecretList", PATIENCE)


def test_pod_security_refuses_what_the_namespace_does_not_allow(world: World) -> None:
    space = namespace(world.plane.client, "walled", **{"pod-security.kubernetes.io/enforce": "restricted"})
    with pytest.raises(ApiError, match="violates PodSecurity") as refused:
        world.plane.client.create(pod(space, "loose", hostNetwork=True))
    assert refused.value.status == 403


def test_a_pod_runs_where_its_selector_leads_and_waits_where_none_does(world: World) -> None:
    client, space = world.plane.client, namespace(world.plane.client, "scheduling")
    paths = {name: f"/api/v1/namespaces/{space}/pods/{name}" for name in ("fits", "lost", "large")}
    client.create(pod(space, "fits", nodeSelector={"tier": "standard"}))
    client.create(pod(space, "lost", nodeSelector={"tier": "untrusted"}))
    client.create(pod(space, "large", container={"resources": {"requests": {"cpu": "5"}}}))
    assert becomes_ready(client, paths["fits"])
    for name, words in (("lost", "didn't match Pod's node affinity/selector"), ("large", "Insufficient cpu")):
        assert until(lambda name=name: condition(client.get(paths[name]), "PodScheduled").get("message"), PATIENCE)
        assert words in condition(client.get(paths[name]), "PodScheduled")["message"]
        assert client.get(paths[name])["status"]["phase"] == "Pending"
    client.delete(paths["fits"])
    assert until(lambda: client.find(paths["fits"]) is None, PATIENCE)


_OPENS_A_PLANE = """
    import os, sys, time
    from pathlib import Path
    from agentenv.local import processes, run_folders, cleanup_process
    from agentenv.rehearsal.controlplane.plane import PROGRAMS, control_plane
    from agentenv.rehearsal.tools import ensure
    from agentenv.rehearsal.tools.progress import Silent

    run = run_folders.create(Path(sys.argv[1]))
    keeper = cleanup_process.start(run.id, run.folder)
    around = {**os.environ, processes.MARK: run.id}
    with control_plane(ensure(PROGRAMS, Silent()), run.folder / "plane", around) as plane:
        print(run.id, flush=True)
        sys.stdin.readline()
    print(len(processes.marked(run.id)), (run.folder / "plane").exists(), flush=True)
    cleanup_process.stop(keeper, "done")
"""


@pytest.fixture
def opened(toolbox: Toolbox, tmp_path: Path) -> tuple[subprocess.Popen[str], str, Path]:
    command = [sys.executable, "-c", textwrap.dedent(_OPENS_A_PLANE), str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip(), tmp_path


def test_closed_it_leaves_neither_process_nor_file(opened: tuple[subprocess.Popen[str], str, Path]) -> None:
    process, run, _ = opened
    assert {process_.name() for process_ in processes.marked(run)} >= {"etcd", "kube-apiserver", "kwok"}
    output, _ = process.communicate("\n", timeout=PATIENCE)
    assert output.split() == ["0", "False"]


def test_killed_it_leaves_neither_process_nor_file(opened: tuple[subprocess.Popen[str], str, Path]) -> None:
    process, run, under = opened
    assert len(processes.marked(run)) >= 6
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE)
    assert until(lambda: not processes.marked(run) and not (under / run).exists(), PATIENCE)
    assert run_folders.sweep(under) == []
