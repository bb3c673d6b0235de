"""POD rules about volumes and probes, and about disabled protections of the node."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import (
    POD,
    Outcome,
    fail,
    first_of_each_field,
    forbid,
    forbid_boolean,
    not_applicable,
    rule,
    unknown,
)
from agentenv.policies.view.cluster.pods import PodSpec

_API = "Kubernetes API reference"
_STANDARDS = "Pod Security Standards 1.35"
# Volumes of other kinds mount files of the node, or of an unknown server
VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_notsent_lowat",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_slow_start_after_idle",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
SELINUX_TYPES = frozenset({None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


@rule(
    id="POD-03",
    title="Pods mount no volume of the node or of an unknown server",
    severity="Critical",
    why="A hostPath is the file system of the node, including the socket of the container runtime. The node mounts the"
    " other kinds with its own privileges.",
    fix="Use an emptyDir, a PersistentVolumeClaim, or a ConfigMap or Secret of the pod's namespace.",
    equivalents={
        "Checkov": ("CKV_K8S_27",),
        "PSS": ("baseline", "restricted"),
        "Kyverno": ("disallow-host-path", "restrict-volume-types"),
    },
    applies_to=POD,
    defaults="A volume without a kind is an emptyDir.",
)
def volumes(pod: PodSpec) -> Iterator[Outcome]:
    """Check the kind of each volume. Sandboxes must have no raw block devices either."""
    for volume in pod.at("volumes").elements():
        if volume.unknown:
            yield unknown(volume)
            continue
        for kind, source in volume.entries():
            if kind == "hostPath" and pod.is_node_agent and not source.missing:
                yield not_applicable(source, "the pod is a node agent")
            elif kind not in VOLUMES and kind not in {"name", "$patch"} and not source.missing:
                yield fail(source, f"a volume is of the kind {kind}")
    for container in pod.containers if pod.sandbox else ():
        for device in container.at("volumeDevices").elements():
            if device.unknown:
                yield unknown(device)
            else:
                yield fail(device, f"{container.title} has a raw block device")


@rule(
    id="POD-08",
    title="Kernel protections are not disabled",
    severity="Medium",
    why="An unmasked /proc, an unsafe sysctl, a host process on Windows and a shared process namespace each remove"
    " isolation that other rules rely on.",
    fix="Remove procMount, shareProcessNamespace and windowsOptions.hostProcess, and every sysctl that Kubernetes does"
    " not list as safe.",
    equivalents={
        "PSS": ("baseline",),
        "Kyverno": ("disallow-proc-mount", "restrict-sysctls", "disallow-host-process"),
    },
    applies_to=POD,
    defaults=f"A masked /proc, no sysctls and separate processes by default ({_API}, PodSecurityContext). Safe"
    f" sysctls: {_STANDARDS}, and the two that 1.37 adds, which an older kubelet rejects.",
)
def masks(pod: PodSpec) -> Iterator[Outcome]:
    """Check the fields of the pod, its sysctls, and each container."""
    yield from forbid_boolean(pod.at("shareProcessNamespace"), {True}, "its containers share a process namespace")
    yield from forbid_boolean(pod.security("windowsOptions").at("hostProcess"), {True}, "the pod is a host process")
    for sysctl in pod.security("sysctls").elements():
        name = sysctl.at("name")
        yield from forbid(name, lambda value: value not in SYSCTLS, f"the sysctl {name.raw} is not safe")
    for container in pod.containers:
        yield from forbid(
            container.security("procMount"),
            lambda value: value not in {None, "", "Default"},
            f"{container.title} has an unmasked /proc",
        )
        yield from forbid_boolean(
            container.security("windowsOptions").at("hostProcess"),
            {True},
            f"{container.title} is a host process",
        )


@rule(
    id="POD-12",
    title="Probes and hooks call only their own pod",
    severity="Medium",
    why="The kubelet makes these calls from the node. With another host, the node calls addresses that the pod must not"
    " reach, such as the node's loopback and instance metadata.",
    fix="Remove host from every probe and lifecycle hook. The kubelet then calls the pod's own address.",
    equivalents={"PSS": ("baseline",)},
    applies_to=POD,
    defaults=f"The pod's own address by default ({_STANDARDS}, since 1.34).",
)
def probes(pod: PodSpec) -> Iterator[Outcome]:
    """Check three probes and two hooks, with HTTP and TCP."""
    handlers = (
        ("livenessProbe",),
        ("readinessProbe",),
        ("startupProbe",),
        ("lifecycle", "postStart"),
        ("lifecycle", "preStop"),
    )
    for container in pod.containers:
        for handler in handlers:
            call = container.at(*handler)
            outcomes = [
                outcome
                for protocol in ("httpGet", "tcpSocket")
                for outcome in forbid(
                    call.at(protocol, "host"), bool, f"{container.title} lets the node call another host than the pod"
                )
            ]
            # An unknown probe is reported once, and not for each protocol
            yield from first_of_each_field([unknown(call)] if call.unknown else outcomes)


@rule(
    id="POD-14",
    title="AppArmor and SELinux are not disabled",
    severity="High",
    why="Both still protect the node when other isolation fails. An unconfined pod, or one with an SELinux label of the"
    " host, has no such protection.",
    fix="Remove both, or use RuntimeDefault or a Localhost profile. Set no SELinux user, role or type.",
    equivalents={
        "PSS": ("baseline",),
        "Kyverno": ("restrict-apparmor-profiles", "disallow-selinux"),
    },
    applies_to=POD,
    defaults=f"The runtime's own profile and label by default ({_STANDARDS}).",
)
def mandatory_access(pod: PodSpec) -> Iterator[Outcome]:
    """Check the pod, each container, and the older annotations."""
    contexts = [("the pod", pod.at("securityContext"))]
    contexts += [(container.title, container.at("securityContext")) for container in pod.containers]
    for title, context in contexts:
        if context.unknown:
            yield unknown(context)
            continue
        options = context.at("seLinuxOptions")
        yield from forbid(
            context.at("appArmorProfile", "type"),
            lambda value: value not in {None, "RuntimeDefault", "Localhost"},
            f"{title} is not confined by AppArmor",
        )
        yield from first_of_each_field(
            [
                *forbid(options.at("type"), lambda value: value not in SELINUX_TYPES, f"{title} sets an SELinux type"),
                *forbid(options.at("user"), bool, f"{title} sets an SELinux user"),
                *forbid(options.at("role"), bool, f"{title} sets an SELinux role"),
            ]
        )
    for key, value in pod.annotations.entries():
        if pod.annotations.unknown:
            yield unknown(pod.annotations)
        elif key.startswith(_APPARMOR):
            yield from forbid(value, _unconfined, f"{key} disables AppArmor")


def _unconfined(value: object) -> bool:
    return not (value in {None, "", "runtime/default"} or str(value).startswith("localhost/"))
