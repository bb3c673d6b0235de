"""Every weakening of a hardened pod is found, in any kind of object; harmless changes are not."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenv.policies.offline import findings_of, resources_of_objects
from agentenv.policies.rules.registry import all_rules
from agentenv.policies.verdicts import Finding, Verdict
from agentenv.policies.view.fields import UNKNOWN
from tests.fast.policies.hardened import (
    DIGEST,
    KINDS,
    WORDS,
    Change,
    Draw,
    Plain,
    Pod,
    Weakening,
    appended,
    container,
    container_appended,
    hardened_pod,
    in_container,
    in_metadata,
    in_pod,
    object_with,
    put,
)

FAMILIES = {"POD", "RT", "IMG", "IAM"}
RULES = [rule for rule in all_rules() if rule.family in FAMILIES]
LASTING = ("containers", "initContainers")

CAPABILITIES = st.sampled_from(["SYS_ADMIN", "NET_RAW", "NET_ADMIN", "SYS_PTRACE", "CHOWN", "SETUID", "BPF", "ALL"])
MOUNTED = st.sampled_from(["hostPath", "nfs", "iscsi", "flexVolume", "rbd", "cephfs", "glusterfs", "gitRepo", "fc"])
UNSAFE = st.sampled_from(["kernel.msgmax", "net.core.somaxconn", "vm.swappiness", "kernel.shmmax", "fs.mqueue.msg_max"])
PORTS = st.integers(1, 65535)
TAGS = st.from_regex(r"v?[0-9]{1,2}\.[0-9]{1,2}", fullmatch=True)
TOKENS = st.sampled_from([{}, {"audience": ""}, {"audience": "https://kubernetes.default.svc"}]).map(
    lambda token: {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", **token}}]}}
)
HANDLERS = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.preStop", "lifecycle.postStart")


def _no_user(pod: Pod, _: Draw) -> None:
    for key in ("runAsUser", "runAsNonRoot"):
        put(pod.spec, f"securityContext.{key}", None)


def _probe(pod: Pod, draw: Draw) -> None:
    handler, way = draw(st.sampled_from(HANDLERS)), draw(st.sampled_from(["httpGet", "tcpSocket"]))
    put(pod.some_container(draw, "containers"), f"{handler}.{way}", {"port": 80, "host": "169.254.169.254"})


def _dropping(pod: Pod, draw: Draw) -> None:
    dropped = draw(st.lists(st.sampled_from(["NET_RAW", "MKNOD", "CHOWN", "SYS_CHROOT"]), unique=True))
    put(pod.some_container(draw), "securityContext.capabilities.drop", dropped)


def _tag(pod: Pod, draw: Draw) -> None:
    pod.some_container(draw)["image"] = f"{draw(WORDS)}.example.com/{draw(WORDS)}:{draw(TAGS)}"


def _no_limit(pod: Pod, draw: Draw) -> None:
    limits = pod.some_container(draw, *LASTING)["resources"]["limits"]
    del limits[draw(st.sampled_from(sorted(limits)))]


def _zero_limit(pod: Pod, draw: Draw) -> None:
    limits = pod.some_container(draw, *LASTING)["resources"]["limits"]
    limits[draw(st.sampled_from(sorted(limits)))] = draw(st.sampled_from(["0", 0, 0.0, "0m", "0Gi", "0.00", "0e3"]))


def _container_without_settings(pod: Pod, draw: Draw) -> None:
    part = draw(st.sampled_from(LASTING))
    pod.spec[part] = draw(st.permutations([*pod.spec.get(part, []), {"name": "soft", "image": f"x@{DIGEST}"}]))


def _weak(name: str, rules: str, change: Change, *, sandboxes: bool = False, silent: bool = False) -> Weakening:
    return Weakening(name, frozenset(rules.split()), change, sandboxes, silent)


WEAKENINGS = (
    _weak("privileged", "POD-01", in_container("securityContext.privileged", True)),
    *(_weak(key, "POD-02", in_pod(key, True)) for key in ("hostNetwork", "hostPID", "hostIPC")),
    _weak(
        "a port of the host",
        "POD-02",
        container_appended("ports", st.fixed_dictionaries({"containerPort": PORTS, "hostPort": PORTS}), LASTING),
    ),
    _weak("a volume of the node's", "POD-03", appended("volumes", MOUNTED.map(lambda kind: {"name": "v", kind: {}}))),
    _weak("a capability", "POD-04", container_appended("securityContext.capabilities.add", CAPABILITIES)),
    _weak("fewer capabilities dropped", "POD-04", _dropping),
    _weak("nothing dropped", "POD-04", in_container("securityContext.capabilities", None), silent=True),
    _weak("escalation", "POD-05", in_container("securityContext.allowPrivilegeEscalation", True)),
    _weak("escalation unsaid", "POD-05", in_container("securityContext.allowPrivilegeEscalation", None), silent=True),
    _weak("root by the pod", "POD-06", in_pod("securityContext.runAsUser", 0, "0")),
    _weak("root by a container", "POD-06", in_container("securityContext.runAsUser", 0)),
    _weak("maybe root", "POD-06", in_container("securityContext.runAsNonRoot", False)),
    _weak("nobody says who", "POD-06", _no_user, silent=True),
    _weak("unconfined", "POD-07", in_container("securityContext.seccompProfile", {"type": "Unconfined"})),
    _weak("all unconfined", "POD-07", in_pod("securityContext.seccompProfile.type", "Unconfined")),
    _weak("no profile", "POD-07", in_pod("securityContext.seccompProfile", None), silent=True),
    _weak("no contexts", "POD-04 POD-05", in_container("securityContext", None), silent=True),
    _weak("unmasked", "POD-08", in_container("securityContext.procMount", "Unmasked")),
    _weak("shared processes", "POD-08", in_pod("shareProcessNamespace", True)),
    _weak("host process", "POD-08", in_pod("securityContext.windowsOptions.hostProcess", True)),
    _weak(
        "a sysctl", "POD-08", appended("securityContext.sysctls", UNSAFE.map(lambda name: {"name": name, "value": "1"}))
    ),
    _weak("no limit", "POD-09", _no_limit, sandboxes=True, silent=True),
    _weak("a limit of nothing", "POD-09", _zero_limit),
    _weak(
        "an emptyDir of no size",
        "POD-09",
        appended("volumes", st.just({"name": "e", "emptyDir": {"sizeLimit": "0"}})),
        sandboxes=True,
    ),
    _weak("an endless emptyDir", "POD-09", appended("volumes", st.just({"name": "e", "emptyDir": {}})), sandboxes=True),
    _weak(
        "a secret in a variable",
        "POD-10",
        container_appended("env", st.just({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})),
    ),
    _weak("a secret's variables", "POD-10", container_appended("envFrom", st.just({"secretRef": {"name": "s"}}))),
    _weak(
        "a password",
        "POD-10",
        container_appended("env", WORDS.map(lambda value: {"name": "DB_PASSWORD", "value": value})),
    ),
    _weak("the controller's label", "POD-11", in_metadata("labels", WORDS.map(lambda word: f"agents.x-k8s.io/{word}"))),
    _weak(
        "the controller's annotation",
        "POD-11",
        in_metadata("annotations", WORDS.map(lambda word: f"extensions.agents.x-k8s.io/{word}")),
    ),
    _weak("a probe of another host", "POD-12", _probe),
    *(_weak(f"{key} of root", "POD-13", in_pod(f"securityContext.{key}", 0)) for key in ("fsGroup", "runAsGroup")),
    _weak("no AppArmor", "POD-14", in_container("securityContext.appArmorProfile", {"type": "Unconfined"})),
    _weak("no AppArmor anywhere", "POD-14", in_pod("securityContext.appArmorProfile", {"type": "Unconfined"})),
    _weak("an SELinux type", "POD-14", in_container("securityContext.seLinuxOptions.type", "spc_t")),
    _weak("an SELinux role", "POD-14", in_pod("securityContext.seLinuxOptions.role", "sysadm_r")),
    _weak("a writable image", "POD-15", in_container("securityContext.readOnlyRootFilesystem", False, parts=LASTING)),
    _weak("a user of the node's", "POD-16", in_pod("securityContext.runAsUser", 1, 1000, 9_999)),
    _weak("a node by name", "POD-17", in_pod("nodeName", "node-1"), sandboxes=True),
    _weak("another scheduler", "POD-17", in_pod("schedulerName", "own"), sandboxes=True),
    _weak("every toleration", "POD-17", appended("tolerations", st.just({"operator": "Exists"})), sandboxes=True),
    _weak("a system priority", "POD-17", in_pod("priorityClassName", "system-node-critical"), sandboxes=True),
    _weak(
        "a runtime's annotation",
        "POD-18",
        in_metadata("annotations", WORDS.map(lambda word: f"io.katacontainers.config.{word}")),
        sandboxes=True,
    ),
    _weak("its neighbours", "POD-19", in_pod("enableServiceLinks", True, None), sandboxes=True, silent=True),
    _weak("no runtime class", "RT-01", in_pod("runtimeClassName", None), sandboxes=True, silent=True),
    _weak("a runtime without a wall", "RT-01 RT-02", in_pod("runtimeClassName", "runc"), sandboxes=True),
    _weak("a token", "IAM-01", in_pod("automountServiceAccountToken", True)),
    _weak("a projected token", "IAM-01", appended("volumes", TOKENS), sandboxes=True),
    _weak("the default account", "IAM-02", in_pod("serviceAccountName", "default"), sandboxes=True),
    _weak("no account of its own", "IAM-02", in_pod("serviceAccountName", None), sandboxes=True, silent=True),
    _weak("a tag", "IMG-01", _tag),
    _weak("whatever is latest", "IMG-05", in_container("image", "nginx", "nginx:latest", "a.example.com:5000/b")),
    _weak("a container that says nothing", "POD-04 POD-05", _container_without_settings, silent=True),
)


def _reordered(pod: Pod, draw: Draw) -> None:
    for part in LASTING:
        if part in pod.spec:
            pod.spec[part] = draw(st.permutations(pod.spec[part]))


def _another(pod: Pod, draw: Draw) -> None:
    part = draw(st.sampled_from(LASTING))
    pod.spec[part] = [*pod.spec.get(part, []), container(f"more-{draw(WORDS)}")]


def _explicit_values(pod: Pod, draw: Draw) -> None:
    """Set the values in a container, which take precedence over those of the pod."""
    context = pod.some_container(draw)["securityContext"]
    context.update({"runAsNonRoot": True, "runAsUser": draw(st.integers(10_000, 2**31 - 1)), "privileged": False})
    context["seccompProfile"] = {"type": "RuntimeDefault"}


HARMLESS: tuple[Change, ...] = (
    _reordered,
    _another,
    in_metadata("labels", WORDS.map(lambda word: f"example.com/{word}")),
    in_metadata("annotations", WORDS),
    in_container("command", ["sleep", "1"], ["/bin/true"]),
    in_container("workingDir", "/home/agent", "/"),
    in_container("imagePullPolicy", "Always", "IfNotPresent"),
    in_container("resources.limits.cpu", "500m", "4", parts=LASTING),
    in_container("securityContext.capabilities.add", [], ["NET_BIND_SERVICE"]),
    in_container("livenessProbe", {"httpGet": {"port": 80}}, {"exec": {"command": ["true"]}}, parts=("containers",)),
    container_appended("ports", st.fixed_dictionaries({"containerPort": PORTS}), LASTING),
    container_appended("env", WORDS.map(lambda value: {"name": "GREETING", "value": value})),
    container_appended("volumeMounts", st.just({"name": "tmp", "mountPath": "/tmp"})),  # noqa: S108
    appended("volumes", WORDS.map(lambda name: {"name": name, "configMap": {"name": name}})),
    appended("volumes", WORDS.map(lambda name: {"name": name, "emptyDir": {"sizeLimit": "10Mi"}})),
    appended("tolerations", WORDS.map(lambda key: {"key": f"example.com/{key}", "operator": "Exists"})),
    in_pod("terminationGracePeriodSeconds", 0, 30),
    in_pod("hostNetwork", False, None),
    in_pod("hostIPC", False),
    in_pod("dnsPolicy", "ClusterFirst", "None"),
    in_pod("restartPolicy", "Always", "Never"),
    in_pod("securityContext.fsGroupChangePolicy", "OnRootMismatch"),
    in_pod("securityContext.sysctls", [], [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]),
    in_pod("priorityClassName", "sandbox"),
)


def _findings(manifest: Plain, kind: str) -> list[Finding]:
    resources = list(resources_of_objects([manifest]))
    if kind.endswith("Patch"):
        resources = [replace(resource, type=f"{resource.type}Patch") for resource in resources]
    return findings_of(resources, rules=RULES)


@pytest.mark.parametrize("weakening", WEAKENINGS, ids=lambda weakening: weakening.name)
@settings(max_examples=8)
@given(data=st.data())
def test_every_weakening_of_a_pod_is_found(weakening: Weakening, data: st.DataObject) -> None:
    pod = hardened_pod(data.draw)
    kind = data.draw(st.sampled_from(weakening.kinds))
    for change in data.draw(st.lists(st.sampled_from(HARMLESS), max_size=4)):
        change(pod, data.draw)
    weakening.change(pod, data.draw)
    failed = {finding.rule for finding in _findings(object_with(pod, kind), kind) if finding.verdict is Verdict.FAIL}
    assert failed & weakening.rules


@settings(max_examples=100)
@given(data=st.data())
def test_harmless_changes_have_no_findings(data: st.DataObject) -> None:
    pod = hardened_pod(data.draw)
    kind = data.draw(st.sampled_from(KINDS))
    for change in data.draw(st.lists(st.sampled_from([*HARMLESS, _explicit_values]), max_size=8)):
        change(pod, data.draw)
    findings = _findings(object_with(pod, kind), kind)
    assert [finding for finding in findings if finding.verdict in {Verdict.FAIL, Verdict.INDETERMINATE}] == []
    # The rules for pods ran
    assert {finding.rule for finding in findings} >= {"POD-01", "POD-09", "IMG-01"}


@settings(max_examples=60)
@given(data=st.data())
def test_an_unknown_container_hides_no_failure_of_others(data: st.DataObject) -> None:
    pod = hardened_pod(data.draw)
    weakening = data.draw(
        st.sampled_from([weakening for weakening in WEAKENINGS if "containers" not in weakening.name])
    )
    kind = data.draw(st.sampled_from(weakening.kinds))
    weakening.change(pod, data.draw)
    before = {
        (finding.rule, finding.message)
        for finding in _findings(object_with(pod, kind), kind)
        if finding.verdict is Verdict.FAIL
    }
    changed = copy.deepcopy(pod)
    # Add an unknown container
    changed.spec["containers"] = [*changed.spec["containers"], UNKNOWN]
    findings = _findings(object_with(changed, kind), kind)
    assert before <= {(finding.rule, finding.message) for finding in findings if finding.verdict is Verdict.FAIL}
    assert "POD-01" in {finding.rule for finding in findings if finding.verdict is Verdict.INDETERMINATE}


@settings(max_examples=40)
@given(data=st.data())
def test_a_single_container_hides_no_pod_template_below_it(data: st.DataObject) -> None:
    pod = hardened_pod(data.draw)
    weakening = data.draw(st.sampled_from([weakening for weakening in WEAKENINGS if not weakening.sandboxes_only]))
    weakening.change(pod, data.draw)
    alone = data.draw(st.sampled_from([{"container": container("a")}, {"containers": [container("a")]}]))
    below = object_with(pod, "Deployment")["spec"]["template"]
    described = data.draw(st.permutations([*alone.items(), ("template", below)]))
    named = {"name": "it", "namespace": "sandbox-standard"}
    manifest = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": named, "spec": dict(described)}
    findings_below = [finding for finding in _findings(manifest, "Thing") if finding.path.startswith("spec.template.")]
    assert weakening.rules & {weakening.rule for weakening in findings_below if weakening.verdict is Verdict.FAIL}
