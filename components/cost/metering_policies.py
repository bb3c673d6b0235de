"""What those who meter may ask of the cluster, and with whom they may speak."""

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_kubernetes.networking import v1 as networking
from pulumi_kubernetes.rbac import v1 as rbac

from agentenv.components._lib.namespace_network_policy import ANYWHERE, API, DNS, Ports
from agentenv.components._lib.options import ChildOptions
from agentenv.core.metering import locations as places

Rule = dict[str, Any]
_APP = "app.kubernetes.io/name"
_LOOK = ["get", "list", "watch"]

# What OpenCost keeps a view of; ConfigMaps only where it runs.
_LOOKED_AT: Sequence[Rule] = (
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
_NODES: Sequence[Rule] = (
    {"api_groups": [""], "resources": ["nodes"], "verbs": _LOOK},
    {"api_groups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
)


def exporters(*, service: bool) -> dict[str, int]:
    """Where there is something to be scraped from pods, and on which port."""
    ports = {
        places.MEASURES: places.MEASURES_PORT,
        places.KARPENTER: places.KARPENTER_PORT,
        places.SANDBOX_CONTROLLER: places.SANDBOX_CONTROLLER_PORT,
    }
    return {**ports, places.SERVICE: places.SERVICE_PORT} if service else ports


def create_roles(name: str, child: ChildOptions, *, service: bool) -> list[pulumi.Resource]:
    """Let each look at what it has to: Prometheus finds pods only where something is to be scraped."""
    made: list[pulumi.Resource] = [
        *_everywhere(name, places.PROMETHEUS, _NODES, child),
        *_everywhere(name, places.OPENCOST, _LOOKED_AT, child),
        *_within(name, places.OPENCOST, places.NAMESPACE, "configmaps", child),
    ]
    for namespace in exporters(service=service):
        made += _within(name, places.PROMETHEUS, namespace, "pods", child)
    return made


def _everywhere(name: str, app: str, rules: Sequence[Rule], child: ChildOptions) -> list[pulumi.Resource]:
    role_name = f"{places.NAMESPACE}-{app}"
    role = rbac.ClusterRole(f"{name}-{app}", metadata={"name": role_name}, rules=[*rules], opts=child())  # pyright: ignore[reportArgumentType] - plain data of its shape
    binding = rbac.ClusterRoleBinding(
        f"{name}-{app}",
        metadata={"name": role_name},
        role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role_name},
        subjects=[_account(app)],
        opts=child(pulumi.ResourceOptions(depends_on=[role])),
    )
    return [role, binding]


def _within(name: str, app: str, namespace: str, what: str, child: ChildOptions) -> list[pulumi.Resource]:
    role_name = f"{places.NAMESPACE}-{app}"
    role = rbac.Role(
        f"{name}-{app}-{namespace}",
        metadata={"name": role_name, "namespace": namespace},
        rules=[{"api_groups": [""], "resources": [what], "verbs": _LOOK}],
        opts=child(),
    )
    binding = rbac.RoleBinding(
        f"{name}-{app}-{namespace}",
        metadata={"name": role_name, "namespace": namespace},
        role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "Role", "name": role_name},
        subjects=[_account(app)],
        opts=child(pulumi.ResourceOptions(depends_on=[role])),
    )
    return [role, binding]


def _account(app: str) -> rbac.SubjectArgsDict:
    return {"kind": "ServiceAccount", "name": app, "namespace": places.NAMESPACE}


def network_policies(*, service: bool) -> dict[str, Rule]:
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


def create_network_policies(
    name: str, namespace: pulumi.Input[str], child: ChildOptions, *, service: bool
) -> Sequence[pulumi.Resource]:
    """Make the policies: in strict mode a pod without one reaches nothing, and is reached by nobody."""
    return [
        networking.NetworkPolicy(
            f"{name}-{app}",
            metadata={"name": app, "namespace": namespace},
            spec=spec,  # pyright: ignore[reportArgumentType] - plain data of its shape
            opts=child(),
        )
        for app, spec in network_policies(service=service).items()
    ]


def _policy(app: str, inward: list[Rule], outward: list[Rule]) -> Rule:
    return {**_app(app), "policyTypes": ["Ingress", "Egress"], "ingress": inward, "egress": outward}


def _app(app: str) -> Rule:
    return {"podSelector": {"matchLabels": {_APP: app}}}


def _namespace(space: str) -> Rule:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}}}


def _to(peer: Rule, port: int) -> Rule:
    return {"to": [peer], "ports": [Ports(port).rule()]}


def _anywhere(*ports: Ports) -> Rule:
    everybody = {"ipBlock": {"cidr": ANYWHERE, "except": ["169.254.0.0/16"]}}
    return {"to": [everybody], "ports": [one.rule() for one in ports]}
