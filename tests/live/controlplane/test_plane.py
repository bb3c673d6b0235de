"""The control plane: authentication, authorization, scheduling, and cleanup."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from agentenv.local import processes, run_folders
from agentenv.rehearsal.controlplane.client import ApiError, Client, Credentials, until
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT, becomes_ready, condition, create_namespace, pod

if TYPE_CHECKING:
    import psutil


def test_control_plane_has_the_requested_version_and_issuer(live: LiveCluster) -> None:
    assert live.plane.client.get("/version")["gitVersion"].startswith("v1.35.")
    assert live.plane.client.get("/.well-known/openid-configuration")["issuer"] == live.plane.issuer


def test_anonymous_requests_read_only_the_version(live: LiveCluster) -> None:
    nobody = live.plane.client_as(Credentials())
    assert nobody.get("/version")["major"] == "1"
    for path in ("/api/v1/namespaces", "/api/v1/secrets", "/apis", "/metrics"):
        with pytest.raises(ApiError, match="system:anonymous") as refused:
            nobody.get(path)
        assert refused.value.status == 403
    with pytest.raises(ApiError) as refused:
        live.plane.client_as(Credentials(token=lambda: "made-up")).get("/version")
    assert refused.value.status == 401


def test_service_account_has_its_bound_rights(live: LiveCluster) -> None:
    admin, namespace = live.plane.client, create_namespace(live.plane.client, "accounts")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    token = admin.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token", request)["status"][
        "token"
    ]
    account = live.plane.client_as(Credentials(token=lambda: token))
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    with pytest.raises(ApiError, match=f"system:serviceaccount:{namespace}:default"):
        account.get(secrets)
    about = {"name": "reads", "namespace": namespace}
    rbac = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]
    admin.apply({"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": about, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    role = {"apiGroup": rbac, "kind": "Role", "name": "reads"}
    admin.apply(
        {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": about, "roleRef": role, "subjects": [subject]}
    )
    assert until(lambda: account.get(secrets)["kind"] == "SecretList", TIMEOUT)


def test_pod_security_of_a_namespace_is_enforced(live: LiveCluster) -> None:
    namespace = create_namespace(live.plane.client, "walled", **{"pod-security.kubernetes.io/enforce": "restricted"})
    with pytest.raises(ApiError, match="violates PodSecurity") as refused:
        live.plane.client.create(pod(namespace, "loose", hostNetwork=True))
    assert refused.value.status == 403


def test_pod_runs_on_a_matching_node_or_stays_pending(live: LiveCluster) -> None:
    client, namespace = live.plane.client, create_namespace(live.plane.client, "scheduling")
    paths = {name: f"/api/v1/namespaces/{namespace}/pods/{name}" for name in ("fits", "lost", "large")}
    client.create(pod(namespace, "fits", nodeSelector={"tier": "standard"}))
    client.create(pod(namespace, "lost", nodeSelector={"tier": "untrusted"}))
    client.create(pod(namespace, "large", container={"resources": {"requests": {"cpu": "5"}}}))
    assert becomes_ready(client, paths["fits"])
    for name, words in (("lost", "didn't match Pod's node affinity/selector"), ("large", "Insufficient cpu")):
        assert until(lambda name=name: condition(client.get(paths[name]), "PodScheduled").get("message"), TIMEOUT)
        assert words in condition(client.get(paths[name]), "PodScheduled")["message"]
        assert client.get(paths[name])["status"]["phase"] == "Pending"
    client.delete(paths["fits"])
    assert until(lambda: client.find(paths["fits"]) is None, TIMEOUT)


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


def test_closed_control_plane_leaves_no_process_and_no_file(opened: tuple[subprocess.Popen[str], str, Path]) -> None:
    process, run, _ = opened
    assert {process_.name() for process_ in processes.marked(run)} >= {"etcd", "kube-apiserver", "kwok"}
    output, _ = process.communicate("\n", timeout=TIMEOUT)
    assert output.split() == ["0", "False"]


def test_killed_program_is_started_again_and_ends_with_the_plane(
    opened: tuple[subprocess.Popen[str], str, Path],
) -> None:
    process, run, under = opened
    programs = ("kube-controller-manager", "kube-apiserver")

    def named(name: str) -> list[psutil.Process]:
        return [each for each in processes.marked(run) if Path(each.cmdline()[0]).name == name]

    killed = {name: named(name) for name in programs}
    for name in programs:
        (each,) = killed[name]
        each.kill()
    assert until(lambda: all(named(name) and named(name) != killed[name] for name in programs), TIMEOUT)
    log = (under / run / "plane" / "logs" / "attendant.log").read_text()
    assert all(f"{name} has ended and is started again (1)" in log for name in programs)
    # It works: without the controllers no namespace gets its service account.
    kubeconfig = under / run / "plane" / "kubeconfigs" / "admin.yaml"
    cluster, user = (yaml.safe_load(kubeconfig.read_text())[key][0] for key in ("clusters", "users"))
    keys = Credentials(Path(user["user"]["client-certificate"]), Path(user["user"]["client-key"]))
    client = Client(cluster["cluster"]["server"], Path(cluster["cluster"]["certificate-authority"]), keys)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}}
    assert until(lambda: client.apply(namespace), TIMEOUT)
    assert until(lambda: client.find("/api/v1/namespaces/later/serviceaccounts/default"), TIMEOUT)
    output, _ = process.communicate("\n", timeout=TIMEOUT)
    assert output.split() == ["0", "False"]


def test_killed_control_plane_leaves_no_process_and_no_file(opened: tuple[subprocess.Popen[str], str, Path]) -> None:
    process, run, under = opened
    assert len(processes.marked(run)) >= 6
    process.send_signal(signal.SIGKILL)
    process.wait(TIMEOUT)
    assert until(lambda: not processes.marked(run) and not (under / run).exists(), TIMEOUT)
    assert run_folders.sweep(under) == []
