"""The restricted Pod Security Standard, from its documentation, independent of the admission plugin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
SELINUX = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}


def violations(spec: Object) -> list[str]:
    """Return the parts of a pod that the restricted standard does not allow."""
    return [*_pod(spec), *(found for container in _containers(spec) for found in _container(container, spec))]


def _containers(spec: Object) -> list[Object]:
    return [
        container
        for key in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(key) or ()
    ]


def _pod(spec: Object) -> Iterator[str]:
    security: Object = spec.get("securityContext") or {}
    yield from (key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key))
    if (security.get("windowsOptions") or {}).get("hostProcess"):
        yield "host process"
    for sysctl in security.get("sysctls") or ():
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctl {sysctl['name']}"
    for volume in spec.get("volumes") or ():
        if kinds := set(volume) - {"name"} - VOLUMES:
            yield f"volume {volume['name']} of {kinds}"
    if security.get("runAsUser") == 0:
        yield "user 0"
    yield from _shared(security, "the pod")


def _container(container: Object, spec: Object) -> Iterator[str]:
    name: str = container["name"]
    security: Object = container.get("securityContext") or {}
    above: Object = spec.get("securityContext") or {}
    capabilities: Object = security.get("capabilities") or {}
    if security.get("privileged"):
        yield f"{name}: privileged"
    if security.get("allowPrivilegeEscalation") is not False:
        yield f"{name}: privilege escalation"
    if "ALL" not in (capabilities.get("drop") or ()):
        yield f"{name}: does not drop ALL"
    if set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
        yield f"{name}: adds capabilities"
    if (security.get("windowsOptions") or {}).get("hostProcess"):
        yield f"{name}: host process"
    if any(port.get("hostPort") for port in container.get("ports") or ()):
        yield f"{name}: host port"
    if security.get("procMount") not in {None, "Default"}:
        yield f"{name}: procMount"
    if not security.get("runAsNonRoot", above.get("runAsNonRoot")):
        yield f"{name}: may be root"
    if security.get("runAsUser") == 0:
        yield f"{name}: user 0"
    seccomp = security.get("seccompProfile") or above.get("seccompProfile") or {}
    if seccomp.get("type") not in {"RuntimeDefault", "Localhost"}:
        yield f"{name}: no seccomp profile"
    ways = [container.get(key) or {} for key in ("startupProbe", "readinessProbe", "livenessProbe")]
    lifecycle: Object = container.get("lifecycle") or {}
    ways += [lifecycle.get(key) or {} for key in ("postStart", "preStop")]
    if any((way.get(kind) or {}).get("host") for way in ways for kind in ("httpGet", "tcpSocket")):
        yield f"{name}: a probe of another host"
    yield from _shared(security, name)


def _shared(security: Object, name: str) -> Iterator[str]:
    """Yield the violations that pods and containers have in common."""
    if (security.get("appArmorProfile") or {}).get("type") == "Unconfined":
        yield f"{name}: AppArmor unconfined"
    if (security.get("seccompProfile") or {}).get("type") == "Unconfined":
        yield f"{name}: seccomp unconfined"
    selinux: Object = security.get("seLinuxOptions") or {}
    if selinux.get("type", "") not in SELINUX or selinux.get("user") or selinux.get("role"):
        yield f"{name}: SELinux"
