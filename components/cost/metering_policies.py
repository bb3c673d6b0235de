"""What those who meter may ask of the cluster, and with whom they may speak."""

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_kubernetes.networking import v1 as networking
from pulumi_kubernetes.rbac import v1 as rbac

from agentenv.components._lib.namespace_network_policy import ANYWHERE, API, DNS, Ports
from agentenv.components._lib.options import Child
from agentenv.core.metering import locations as places

Plain = dict[str, Any]
_APP = "app.kubernetes.io/name"
_LOOK = ["get", "list", "watch"]

# What OpenCost keeps a view of; ConfigMaps only where it runs.
_LOOKED_AT: Sequence[Plain] = (
    {
        "api_groups": [""],
        "resources": [
            "nodes",
            "pods",
            "services",
            "namespaces",
            "persistentvolumes",
            "persistentvolumeclaims",
            "replicationcontrollers",
            "resourcequotas",
            "limitranges",
            "endpoints",
        ],
        "verbs": _LOOK,
    },
    {"api_groups": ["apps"], "resources": ["deployments", "statefulsets", "daemonsets", "replicasets"], "verbs": _LOOK},
    {"api_groups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": _LOOK},
    {"api_groups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": _LOOK},
    {"api_groups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _LOOK},
    {"api_groups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": _LOOK},
)
# The kubelets' metrics, and not their proxies: over those one could run commands in any pod.
_NODES: Sequence[Plain] = (
    {"api_groups": [""], "resources": ["nodes"], "verbs": _LOOK},
    {"api_groups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
)


def exporters(*, service: bool) -> dict[str, int]:
    """Where there is something to be scraped from pods, and on which port."""
    found = {
        places.MEASURES: places.MEASURES_PORT,
        places.KARPENTER: places.KARPENTER_PORT,
        places.SANDBOX_CONTROLLER: places.SANDBOX_CONTROLLER_PORT,
    }
    return {**found, places.SERVICE: places.SERVICE_PORT} if service else found


def give(name: str, child: Child, *, service: bool) -> list[pulumi.Resource]:
    """Let each look at what it has to: Prometheus finds pods only where something is to be scraped."""
    made: list[pulumi.Resource] = [
        *_everywhere(name, places.PROMETHEUS, _NODES, child),
        *_everywhere(name, places.OPENCOST, _LOOKED_AT, child),
        *_within(name, places.OPENCOST, places.NAMESPACE, "configmaps", child),
    ]
    for namespace in exporters(service=service):
        made += _within(name, places.PROMETHEUS, namespace, "pods", child)
    return made


def _everywhere(name: str, who: str, rules: Sequence[Plain], child: Child) -> list[pulumi.Resource]:
    called = f"{places.NAMESPACE}-{who}"
    role = rbac.ClusterRole(f"{name}-{who}", metadata={"name": called}, rules=[*rules], opts=child())  # pyright: ignore[reportArgumentType] - plain data of its shape
    bound = rbac.ClusterRoleBinding(
        f"{name}-{who}",
        metadata={"name": called},
        role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": called},
        subjects=[_account(who)],
        opts=child(pulumi.ResourceOptions(depends_on=[role])),
    )
    return [role, bound]


def _within(name: str, who: str, namespace: str, what: str, child: Child) -> list[pulumi.Resource]:
    called = f"{places.NAMESPACE}-{who}"
    role = rbac.Role(
        f"{name}-{who}-{namespace}",
        metadata={"name": called, "namespace": namespace},
        rules=[{"api_groups": [""], "resources": [what], "verbs": _LOOK}],
        opts=child(),
    )
    bound = rbac.RoleBinding(
        f"{name}-{who}-{namespace}",
        metadata={"name": called, "namespace": namespace},
        role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "Role", "name": called},
        subjects=[_account(who)],
        opts=child(pulumi.ResourceOptions(depends_on=[role])),
    )
    return [role, bound]


def _account(who: str) -> rbac.SubjectArgsDict:
    return {"kind": "ServiceAccount", "name": who, "namespace": places.NAMESPACE}


def policies(*, service: bool) -> dict[str, Plain]:
    """The policy of each, by its name.

    A forwarded port comes from the pod's own node, as its probes do: those no policy meets.
    """
    asked = [_to(_namespace(space), port) for space, port in exporters(service=service).items()]
    readers = [_app(places.GRAFANA), _app(places.OPENCOST)]
    if service:
        readers.append({**_namespace(places.SERVICE), **_app(places.SERVICE)})
    stored = _to(_app(places.PROMETHEUS), places.PROMETHEUS_PORT)
    return {
        places.PROMETHEUS: _policy(
            places.PROMETHEUS,
            [{"from": readers, "ports": [Ports(places.PROMETHEUS_PORT).rule()]}],
            [
                _anywhere(*API, *DNS, Ports(places.KUBELET_PORT)),
                _to(_app(places.OPENCOST), places.OPENCOST_PORT),
                *asked,
            ],
        ),
        places.OPENCOST: _policy(
            places.OPENCOST,
            [{"from": [_app(places.PROMETHEUS)], "ports": [Ports(places.OPENCOST_PORT).rule()]}],
            # The API, and over the same port the list of prices.
            [_anywhere(*API, *DNS), stored],
        ),
        places.GRAFANA: _policy(places.GRAFANA, [], [_anywhere(*DNS), stored]),
    }


def open_doors(name: str, namespace: pulumi.Input[str], child: Child, *, service: bool) -> Sequence[pulumi.Resource]:
    """Make the policies: in strict mode a pod without one reaches nothing, and is reached by nobody."""
    return [
        networking.NetworkPolicy(
            f"{name}-{who}",
            metadata={"name": who, "namespace": namespace},
            spec=spec,  # pyright: ignore[reportArgumentType] - plain data of its shape
            opts=child(),
        )
        for who, spec in policies(service=service).items()
    ]


def _policy(who: str, inward: list[Plain], outward: list[Plain]) -> Plain:
    return {**_app(who), "policyTypes": ["Ingress", "Egress"], "ingress": inward, "egress": outward}


def _app(who: str) -> Plain:
    return {"podSelector": {"matchLabels": {_APP: who}}}


def _namespace(space: str) -> Plain:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}}}


def _to(peer: Plain, port: int) -> Plain:
    return {"to": [peer], "ports": [Ports(port).rule()]}


def _anywhere(*ports: Ports) -> Plain:
    everybody = {"ipBlock": {"cidr": ANYWHERE, "except": ["169.254.0.0/16"]}}
    return {"to": [everybody], "ports": [one.rule() for one in ports]}
