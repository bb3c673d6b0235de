"""POD: what is put into a pod from outside, and which of the node's protections it asks to do without."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentenv.policies.rules.registry import (
    POD,
    Outcome,
    fail,
    forbid,
    forbid_switch,
    not_applicable,
    once,
    rule,
    unknown,
)
from agentenv.policies.view.cluster.pods import Container, PodSpec
from agentenv.policies.view.fields import Field

_API = "Kubernetes API reference"
_STANDARDS = "Pod Security Standards 1.35"
# Whatever is of another kind brings in the node's files, or a server that nobody here looks after
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
# The last words of a variable's name that mean a secret itself, and not where one is to be found
SECRET_NAME = re.compile(
    r"(^|[_.-])(PASSWORD|PASSWD|PASSPHRASE|SECRET|SECRET_?KEY|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?)$",
    re.IGNORECASE,
)


@rule(
    id="POD-03",
    title="No volume of the node's or of an unknown server's",
    severity="Critical",
    why="A hostPath is the node's own file system, down to the container runtime's socket; the other kinds are mounted"
    " by the node with the node's own rights.",
    do="Use emptyDir, a PersistentVolumeClaim, or a ConfigMap or Secret of the pod's own namespace.",
    equivalents={
        "Checkov": ("CKV_K8S_27",),
        "PSS": ("baseline", "restricted"),
        "Kyverno": ("disallow-host-path", "restrict-volume-types"),
    },
    about=POD,
    defaults="A volume without a kind is an emptyDir.",
)
def volumes(pod: PodSpec) -> Iterator[Outcome]:
    """The kind of each volume; in a sandbox no raw devices either."""
    for volume in pod.at("volumes").elements():
        if volume.unknown:
            yield unknown(volume)
            continue
        for kind, source in volume.entries():
            if kind == "hostPath" and pod.of_node and not source.missing:
                yield not_applicable(source, "the program is part of its node")
            elif kind not in VOLUMES and kind not in {"name", "$patch"} and not source.missing:
                yield fail(source, f"a volume is of the kind {kind}")
    for container in pod.containers if pod.sandbox else ():
        for device in container.at("volumeDevices").elements():
            if device.unknown:
                yield unknown(device)
            else:
                yield fail(device, f"{container.title} has a raw device")


@rule(
    id="POD-08",
    title="The kernel's usual masks stay on",
    severity="Medium",
    why="An unmasked /proc, a sysctl of the node's, a host process on Windows or processes shared between containers"
    " each take away a wall that everything else counts on.",
    do="Leave out procMount, shareProcessNamespace and windowsOptions.hostProcess, and every sysctl that Kubernetes"
    " does not call safe.",
    equivalents={
        "PSS": ("baseline",),
        "Kyverno": ("disallow-proc-mount", "restrict-sysctls", "disallow-host-process"),
    },
    about=POD,
    defaults=f"All masks on, no sysctls, processes apart where nothing is said ({_API}, PodSecurityContext). Safe"
    f" sysctls: {_STANDARDS}, and the two that 1.37 adds, which an older kubelet refuses by itself.",
)
def masks(pod: PodSpec) -> Iterator[Outcome]:
    """The pod's switches, its sysctls, and each container's."""
    yield from forbid_switch(pod.at("shareProcessNamespace"), {True}, "its containers see each other's processes")
    yield from forbid_switch(pod.security("windowsOptions").at("hostProcess"), {True}, "the pod is a host process")
    for sysctl in pod.security("sysctls").elements():
        name = sysctl.at("name")
        yield from forbid(name, lambda value: value not in SYSCTLS, f"the sysctl {name.raw} is the node's")
    for container in pod.containers:
        yield from forbid(
            container.security("procMount"),
            lambda value: value not in {None, "", "Default"},
            f"{container.title} has an unmasked /proc",
        )
        yield from forbid_switch(
            container.security("windowsOptions").at("hostProcess"),
            {True},
            f"{container.title} is a host process",
        )


@rule(
    id="POD-10",
    title="No secrets in the environment",
    severity="Medium",
    why="Every process of the container inherits its environment, crash reports and debug pages print it, and whoever"
    " may read the pod reads what is written into it.",
    do="Mount the secret as a file, or better give the pod an identity of its own and no secret at all.",
    equivalents={
        "Checkov": ("CKV_K8S_35",),
        "CIS": ("4.4.1",),
        "Kyverno": ("secrets-not-from-env-vars",),
    },
    about=POD,
)
def secrets_in_environment(pod: PodSpec) -> Iterator[Outcome]:
    """Variables from Secrets, and values that are written down under the name of a secret."""
    for container in pod.containers:
        for source in container.at("envFrom").elements():
            reference = source.at("secretRef")
            if reference.unknown:
                yield unknown(reference)
            elif not reference.missing:
                yield fail(reference, f"{container.title} has a whole Secret in its environment")
        for variable in container.at("env").elements():
            yield from _variable(container, variable)


def _variable(container: Container, variable: Field) -> Iterator[Outcome]:
    reference, name, value = variable.at("valueFrom", "secretKeyRef"), variable.at("name"), variable.at("value")
    if reference.unknown:
        yield unknown(reference)
    elif not reference.missing:
        yield fail(reference, f"{container.title} has a Secret's value in its environment")
    elif name.unknown:
        yield unknown(name)
    elif isinstance(name.raw, str) and SECRET_NAME.search(name.raw):
        # Its value is nobody's business here, and not shown
        yield from forbid(value, bool, f"{container.title} has the value of {name.raw} written down")


@rule(
    id="POD-12",
    title="Probes and hooks stay in the pod",
    severity="Medium",
    why="The kubelet makes these calls from the node: one that names a host makes the node knock where the pod itself"
    " may not, its own loopback and the metadata address among them.",
    do="Leave out host in every probe and lifecycle hook; the pod's own address is meant then.",
    equivalents={"PSS": ("baseline",)},
    about=POD,
    defaults=f"The pod's own address where nothing is said ({_STANDARDS}, since 1.34).",
)
def probes(pod: PodSpec) -> Iterator[Outcome]:
    """Three probes and two hooks, by HTTP and TCP."""
    handlers = (
        ("livenessProbe",),
        ("readinessProbe",),
        ("startupProbe",),
        ("lifecycle", "postStart"),
        ("lifecycle", "preStop"),
    )
    for container in pod.containers:
        for handler in handlers:
            called = container.at(*handler)
            outcomes = [
                outcome
                for way in ("httpGet", "tcpSocket")
                for outcome in forbid(
                    called.at(way, "host"), bool, f"{container.title} has the node call another host than itself"
                )
            ]
            # A probe that is not known is said once, and not once a way
            yield from once([unknown(called)] if called.unknown else outcomes)


@rule(
    id="POD-14",
    title="AppArmor and SELinux are not switched off",
    severity="High",
    why="Both hold where everything else has failed; a pod that is unconfined, or that chooses a label of the host's,"
    " does without.",
    do="Leave both out, or use RuntimeDefault or a Localhost profile; choose no SELinux user, role or type.",
    equivalents={
        "PSS": ("baseline",),
        "Kyverno": ("restrict-apparmor-profiles", "disallow-selinux"),
    },
    about=POD,
    defaults=f"The runtime's own profile and label where nothing is said ({_STANDARDS}).",
)
def mandatory_access(pod: PodSpec) -> Iterator[Outcome]:
    """What the pod says, what each container says, and the older annotations."""
    contexts = [("the pod", pod.at("securityContext"))]
    contexts += [(container.title, container.at("securityContext")) for container in pod.containers]
    for whose, context in contexts:
        if context.unknown:
            yield unknown(context)
            continue
        options = context.at("seLinuxOptions")
        yield from forbid(
            context.at("appArmorProfile", "type"),
            lambda value: value not in {None, "RuntimeDefault", "Localhost"},
            f"{whose} is not confined by AppArmor",
        )
        yield from once(
            [
                *forbid(options.at("type"), lambda value: value not in SELINUX_TYPES, f"{whose} has a type of its own"),
                *forbid(options.at("user"), bool, f"{whose} has an SELinux user of its own"),
                *forbid(options.at("role"), bool, f"{whose} has an SELinux role of its own"),
            ]
        )
    for key, value in pod.annotations.entries():
        if pod.annotations.unknown:
            yield unknown(pod.annotations)
        elif key.startswith(_APPARMOR):
            yield from forbid(value, _unconfined, f"{key} switches AppArmor off")


def _unconfined(value: object) -> bool:
    return not (value in {None, "", "runtime/default"} or str(value).startswith("localhost/"))
