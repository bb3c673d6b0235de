"""Tests of the pods of classes: hardened in any case, and according to their settings."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given

from agentenv.core.capabilities.policies.class_security_groups import class_groups
from agentenv.core.classes.plan import ClassPlan, plans
from agentenv.core.classes.pods.resources import SCRATCH, SHARED_MEMORY
from agentenv.core.classes.template import template_spec
from agentenv.core.nodes.fargate_sizes import GIB, OVERHEAD, SIZES
from agentenv.core.nodes.tiers import wall_of
from agentenv.core.values.posix_ids import class_id
from agentenv.core.values.quantities import Quantity
from tests.fast.config.stack_samples import VETTED, fargate, sandbox, settings
from tests.fast.core.classes.restricted import violations
from tests.fast.core.classes.strategies import FEW, SERVICE, created, objects_of, plan_of, planned

Object = dict[str, Any]
WORKSPACED: Object = {"service": SERVICE}


def pod(class_: Object, **sections: Any) -> Object:
    return created(class_, **sections).templates[0]["spec"]["podTemplate"]["spec"]


def main(spec: Object) -> Object:
    (container,) = spec["containers"]
    return container


def amount(text: str) -> Any:
    return Quantity.parse(text).value


@FEW
@given(planned())
def test_every_pod_satisfies_the_restricted_standard(plan: ClassPlan) -> None:
    for document in objects_of(plan).templates:
        spec = document["spec"]["podTemplate"]["spec"]
        assert violations(spec) == []
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["serviceAccountName"] == "sandbox"
        assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["runAsGroup"] == class_id(plan.name)
        assert "fsGroup" not in spec["securityContext"]
        assert spec["dnsPolicy"] in {"ClusterFirst", "None"}
        assert spec["terminationGracePeriodSeconds"] > 0
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            assert "@sha256:" in container["image"]
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert set(container["resources"]["limits"]) >= {"cpu", "memory", "ephemeral-storage"}
            assert set(container["resources"]["requests"]) == set(container["resources"]["limits"])
            assert all(
                amount(container["resources"]["requests"][name]) <= amount(most)
                for name, most in container["resources"]["limits"].items()
            )
            assert not any("valueFrom" in variable for variable in container.get("env", []))


@FEW
@given(planned())
def test_writable_paths_are_mounted_once_with_a_size_limit(plan: ClassPlan) -> None:
    spec = template_spec(plan, plan.settings.image, {})
    inside = spec["podTemplate"]["spec"]
    claimed = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
    volumes = {volume["name"]: volume for volume in inside["volumes"]}
    mounts = main(inside)["volumeMounts"]
    paths = [mount["mountPath"] for mount in mounts]
    assert len(set(paths)) == len(paths)
    assert set(paths) >= set(SCRATCH)
    assert {mount["name"] for mount in mounts} == set(volumes) | claimed
    folders = [volume["emptyDir"] for volume in volumes.values() if "emptyDir" in volume]
    taken = sum(amount(folder["sizeLimit"]) for folder in folders if folder.get("medium") != "Memory")
    assert taken <= amount(main(inside)["resources"]["limits"]["ephemeral-storage"])
    home = next(variable["value"] for variable in main(inside)["env"] if variable["name"] == "HOME")
    assert home in paths


@pytest.mark.parametrize("change", ["privileged", "root", "hostPath", "hostNetwork", "seccomp", "ALL"])
def test_the_check_finds_violations(change: str) -> None:
    spec = deepcopy(pod(sandbox()))
    security = main(spec)["securityContext"]
    if change == "privileged":
        security["privileged"] = True
    elif change == "root":
        security["runAsUser"] = 0
    elif change == "hostPath":
        spec["volumes"].append({"name": "node", "hostPath": {"path": "/"}})
    elif change == "hostNetwork":
        spec["hostNetwork"] = True
    elif change == "seccomp":
        security["seccompProfile"] = {"type": "Unconfined"}
    else:
        security["capabilities"] = {"drop": ["NET_RAW"]}
    assert violations(spec)


@pytest.mark.parametrize("tier", ["verified", "standard", "untrusted"])
def test_a_pod_has_the_runtime_class_and_nodes_of_its_tier(tier: str) -> None:
    spec = pod(sandbox(**{"tier": tier, **(VETTED if tier == "verified" else {})}))
    wall = wall_of(tier)
    assert spec.get("runtimeClassName") == wall.runtime_class
    assert spec["nodeSelector"] == {
        "sandbox.users.io/tier": tier,
        "sandbox.users.io/wall": wall.word,
        "karpenter.sh/capacity-type": "on-demand",
        "kubernetes.io/arch": "amd64" if tier == "untrusted" else "arm64",
    }
    assert [toleration["key"] for toleration in spec["tolerations"]] == ["sandbox.users.io/tier"]
    assert spec["priorityClassName"] == "sandbox"
    (spread,) = spec["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("topology.kubernetes.io/zone", "ScheduleAnyway")


@pytest.mark.parametrize(
    ("kind", "architecture", "expected"),
    [("slot", "any", "arm64"), ("shared", "any", "arm64"), ("slot", "amd64", "amd64"), ("none", "any", None)],
)
def test_homes_that_last_stay_on_one_architecture(kind: str, architecture: str, expected: str | None) -> None:
    """Wheels and node modules of one processor do not run on the other, where the home may wake."""
    spec = pod(sandbox(architecture=architecture, storage={"kind": kind}))
    assert spec["nodeSelector"].get("kubernetes.io/arch") == expected


def test_shared_memory_has_a_size() -> None:
    """Under gVisor, `/dev/shm` without a volume showed half of the node's memory."""
    spec = pod(sandbox(resources={"memory": "1Gi"}))
    (volume,) = [volume for volume in spec["volumes"] if volume.get("emptyDir", {}).get("medium") == "Memory"]
    assert volume["emptyDir"]["sizeLimit"] == "512Mi"
    assert {"name": volume["name"], "mountPath": SHARED_MEMORY} in main(spec)["volumeMounts"]


def test_requests_and_limits_follow_the_settings() -> None:
    settings_ = {"cpu": "100m", "memory": "512Mi", "ephemeral": "4Gi", "burst": {"cpu": "2", "memory": "2Gi"}}
    container = main(pod(sandbox(resources=settings_)))
    assert container["resources"] == {
        "requests": {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "4Gi"},
        # Scratch folders may have twice what is requested: two jobs with 1.4 GiB in /tmp were evicted.
        "limits": {"cpu": "2", "memory": "2Gi", "ephemeral-storage": "8Gi"},
    }
    assert container["resizePolicy"] == [
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
        {"resourceName": "memory", "restartPolicy": "NotRequired"},
    ]


@pytest.mark.parametrize(
    ("cpu", "memory", "given_cpu", "given_memory"),
    [("250m", "512Mi", "250m", "768Mi"), ("250m", "256Mi", "250m", "256Mi"), ("1", "3840Mi", "1", "3840Mi")],
)
def test_fargate_pods_request_a_fargate_size(cpu: str, memory: str, given_cpu: str, given_memory: str) -> None:
    spec = pod(fargate(resources={"cpu": cpu, "memory": memory}))
    resources = main(spec)["resources"]
    assert resources["requests"] == resources["limits"]
    assert (resources["limits"]["cpu"], resources["limits"]["memory"]) == (given_cpu, given_memory)
    whole = (amount(given_cpu), (amount(given_memory) + OVERHEAD) / GIB)
    assert whole in {(size.cpu, size.memory) for size in SIZES}


def test_fargate_pods_have_no_scheduling_fields() -> None:
    spec = pod(fargate(storage={"kind": "scratch"}, capabilities=["dns"]))
    unknown = {"runtimeClassName", "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"}
    assert not unknown & set(spec)
    assert not {"priorityClassName", "initContainers"} & set(spec)
    assert "resizePolicy" not in main(spec)


def test_scratch_homes_need_local_disks_and_count_as_ephemeral_storage() -> None:
    spec = pod(
        sandbox(storage={"kind": "scratch", "size": "20Gi"}, resources={"ephemeral": "2Gi"}),
        capacity={"families": ["m8gd"]},
    )
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "karpenter.k8s.aws/instance-local-nvme", "operator": "Exists"}]
    assert {"name": "home", "emptyDir": {"sizeLimit": "20Gi"}} in spec["volumes"]
    assert main(spec)["resources"]["requests"]["ephemeral-storage"] == "22Gi"


def test_gpu_requests_equal_limits() -> None:
    spec = pod(sandbox(**VETTED, gpu=2), capacity={"gpu": {"limit": 4}})
    resources = main(spec)["resources"]
    assert resources["requests"]["nvidia.com/gpu"] == resources["limits"]["nvidia.com/gpu"] == "2"
    assert "nvidia.com/gpu" in {toleration["key"] for toleration in spec["tolerations"]}


def test_dns_is_that_of_the_cluster_or_none() -> None:
    assert pod(sandbox(capabilities=["dns"]))["dnsPolicy"] == "ClusterFirst"
    none = pod(sandbox(capabilities=[]))
    assert (none["dnsPolicy"], none["dnsConfig"]["nameservers"]) == ("None", ["127.0.0.1"])


@pytest.mark.parametrize(
    ("probe", "way"),
    [
        ({"port": 8080}, {"tcpSocket": {"port": 8080}}),
        ({"port": 8080, "path": "/ready"}, {"httpGet": {"path": "/ready", "port": 8080}}),
        ({"command": ["ready"]}, {"exec": {"command": ["ready"]}}),
    ],
)
def test_a_sandbox_has_no_liveness_probe(probe: Object, way: Object) -> None:
    container = main(pod(sandbox(probe={**probe, "startWithin": "90s"})))
    assert container["startupProbe"] == {**way, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 90}
    assert way.items() <= container["readinessProbe"].items()
    assert "livenessProbe" not in container


def test_a_probe_on_fargate_is_allowed() -> None:
    settings_ = settings({"sandboxClasses": [fargate(probe={"port": 8080})]})
    (class_,) = class_groups(settings_)
    assert (8080, 8080) in {rule.ports for group in class_.groups for rule in group.ingress}


def test_home_is_mounted_at_the_path_of_the_class() -> None:
    settings_ = [{"name": "HOME", "value": "/elsewhere"}]
    assert {"name": "HOME", "value": "/elsewhere"} in main(pod(sandbox(env=settings_)))["env"]
    mount = {"name": "home", "mountPath": "/work", "subPath": "current"}
    assert mount in main(pod(sandbox(storage={"mountPath": "/work"})))["volumeMounts"]
    homeless = main(pod(sandbox(storage={"kind": "none"})))
    assert {"name": "HOME", "value": next(iter(SCRATCH))} in homeless["env"]
    assert "home" not in {mount["name"] for mount in homeless["volumeMounts"]}


def test_the_gate_is_the_last_to_run_before_a_sandbox_and_only_on_nodes() -> None:
    assert [container["name"] for container in pod(sandbox())["initContainers"]] == ["home", "gate"]
    assert [container["name"] for container in pod(sandbox(), **WORKSPACED)["initContainers"]] == [
        "home",
        "workspaced",
        "passwd",
        "gate",
    ]
    assert [container["name"] for container in pod(fargate(), **WORKSPACED)["initContainers"]] == [
        "workspaced",
        "passwd",
    ]
    assert plan_of(fargate()).wall is None


@pytest.mark.parametrize("command", [[], ["/bin/agent", "--serve"]])
def test_workspaced_is_the_first_process_and_starts_the_command(command: list[str]) -> None:
    objects = created(sandbox(command=command, suspendGrace="45s"), **WORKSPACED)
    spec = objects.templates[0]["spec"]["podTemplate"]["spec"]
    install, passwd = spec["initContainers"][1:3]
    assert (install["image"], install["command"]) == (
        SERVICE["workspaced"]["image"],
        ["/workspaced", "install", "/opt/workspaced"],
    )
    # The image's own users stay, so the file is written in a container of that image.
    container = main(spec)
    assert passwd["image"] == container["image"]
    assert passwd["command"] == [
        *("/opt/workspaced/workspaced", "passwd", "--to", "/opt/workspaced/passwd"),
        *("--group", "/opt/workspaced/group"),
        *("--home", "/home/agent"),
    ]
    assert container["command"] == [
        *("/opt/workspaced/workspaced", "run", "--pod-uid-file", "/etc/podinfo/uid"),
        *("--keys", "/etc/workspaced/keys.json", *(["--", *command] if command else [])),
    ]
    assert "args" not in container
    assert container["ports"] == [{"name": "workspaced", "containerPort": 49983, "protocol": "TCP"}]
    assert container["startupProbe"]["exec"] == {"command": ["/opt/workspaced/workspaced", "health"]}
    assert not {"readinessProbe", "livenessProbe"} & set(container)
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    for path in ("/opt/workspaced", "/etc/passwd", "/etc/group", "/etc/podinfo", "/etc/workspaced"):
        assert mounts[path]["readOnly"] is True
    assert (mounts["/etc/passwd"]["subPath"], mounts["/etc/group"]["subPath"]) == ("passwd", "group")
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["workspaced-keys"]["configMap"] == {"name": "workspaced-keys"}
    (uid,) = volumes["podinfo"]["downwardAPI"]["items"]
    assert (uid["path"], uid["fieldRef"]["fieldPath"]) == ("uid", "metadata.uid")
    assert objects.keys is not None
    # Without data: the service publishes the keys, and a deployment changes none of them.
    assert "data" not in objects.keys
    assert objects.keys["metadata"]["name"] == "workspaced-keys"
    # What is left after the grace is killed before the kubelet would kill workspaced itself.
    assert {"name": "WORKSPACED_GRACE", "value": "45s"} in container["env"]
    assert spec["terminationGracePeriodSeconds"] == 55


def test_a_local_work_tree_is_a_volume_that_workspaced_keeps_in_the_home() -> None:
    settings_ = sandbox(workTree={"kind": "local", "size": "3Gi", "interval": "45s"})
    plain, local = (
        created(sandbox_class, **WORKSPACED).templates[0]["spec"]["podTemplate"]["spec"]
        for sandbox_class in (sandbox(), settings_)
    )
    (container,) = local["containers"]
    assert {"name": "work", "emptyDir": {"sizeLimit": "3Gi"}} in local["volumes"]
    assert {"name": "work", "mountPath": "/work"} in container["volumeMounts"]
    variables = {row["name"]: row["value"] for row in container["env"]}
    assert variables["WORK_TREE"] == variables["WORKSPACED_WORK_TREE"] == "/work"
    assert (variables["WORKSPACED_WORK_TREE_INTERVAL"], variables["WORKSPACED_WORK_TREE_FLUSH"]) == ("45s", "60s")
    # Its last synchronisation comes after the grace of the processes, and a new pod may take long to fill it.
    assert local["terminationGracePeriodSeconds"] == plain["terminationGracePeriodSeconds"] + 60
    assert container["startupProbe"]["failureThreshold"] == 600
    disks = [
        Quantity.parse(spec["containers"][0]["resources"]["requests"]["ephemeral-storage"]).value
        for spec in (plain, local)
    ]
    assert disks[1] - disks[0] == Quantity.parse("3Gi").value


@pytest.mark.parametrize("daemon", ["image", "none"])
def test_a_class_with_another_daemon_has_its_images_entry_point(daemon: str) -> None:
    objects = created(sandbox(daemon=daemon, command=["/bin/agent"], args=["--serve"]), **WORKSPACED)
    container = main(objects.templates[0]["spec"]["podTemplate"]["spec"])
    assert (container["command"], container["args"]) == (["/bin/agent"], ["--serve"])
    assert not {"ports", "startupProbe"} & set(container)
    assert objects.keys is None
    assert SERVICE["workspaced"]["image"] not in objects.constraints["data"]["images"]


def test_class_probe_decides_readiness() -> None:
    container = main(pod(sandbox(probe={"port": 8080}), **WORKSPACED))
    assert container["startupProbe"]["tcpSocket"] == {"port": 8080}


def test_every_image_of_a_pod_is_one_of_the_classs() -> None:
    for class_ in (sandbox(), sandbox(storage={"kind": "none"}), fargate()):
        for more in ({}, WORKSPACED):
            objects = created(class_, **more)
            spec = objects.templates[0]["spec"]["podTemplate"]["spec"]
            images = {each["image"] for each in [*spec.get("initContainers", []), *spec["containers"]]}
            assert images == set(objects.constraints["data"]["images"].split(","))


def test_package_managers_install_into_the_home() -> None:
    variables = {variable["name"]: variable["value"] for variable in main(pod(sandbox()))["env"]}
    assert {key: variables[key] for key in ("HOME", "TMPDIR", "NPM_CONFIG_PREFIX", "GOBIN", "CARGO_HOME")} == {
        "HOME": "/home/agent",
        "TMPDIR": "/tmp",  # noqa: S108 - of a sandbox
        "NPM_CONFIG_PREFIX": "/home/agent/.local",
        "GOBIN": "/home/agent/.local/bin",
        "CARGO_HOME": "/home/agent/.cargo",
    }
    own = main(pod(sandbox(env=[{"name": "GOPATH", "value": "/opt/go"}])))["env"]
    assert {"name": "GOPATH", "value": "/opt/go"} in own


def test_the_daemon_of_a_sandbox_is_reached_by_the_gateway_and_the_service_alone() -> None:
    callers = {
        daemon: [
            peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"]
            for rule in created(sandbox(daemon=daemon), **WORKSPACED).network_policy["spec"].get("ingress", [])  # pyright: ignore[reportOptionalSubscript]
            for peer in rule["from"]
            if rule["ports"] == [{"protocol": "TCP", "port": 49983}]
        ]
        for daemon in ("workspaced", "image", "none")
    }
    assert {daemon: sorted(pods) for daemon, pods in callers.items()} == {
        "workspaced": ["envoy", "workspace-service", "workspace-service-loops"],
        "image": ["envoy"],
        "none": [],
    }


def test_on_fargate_the_daemon_is_reached_from_nodes() -> None:
    for daemon, groups in (("workspaced", [":nodes"]), ("none", [])):
        (class_,) = class_groups(settings({"sandboxClasses": [fargate(daemon=daemon)], **WORKSPACED}))
        rules = [rule for group in class_.groups for rule in group.ingress if rule.ports == (49983, 49983)]
        assert [rule.group for rule in rules] == groups


def test_a_grant_of_all_ports_to_a_class_leaves_out_its_daemon() -> None:
    classes = [sandbox(), sandbox("caller", capabilities=[{"class": "standard"}])]
    plan, _ = plans(settings({"sandboxClasses": classes, **WORKSPACED}))
    open_ports = {
        port
        for entry in plan.ingress.pod_ports
        for port in (49982, 49983, 49984)
        if entry.pods.namespace == "sandbox-caller" and port in entry.ports
    }
    assert open_ports == {49982, 49984}
