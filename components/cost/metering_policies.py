"""RBAC and network policies of Prometheus, OpenCost and Grafana."""

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_kubernetes.networking import v1 as networking
from pulumi_kubernetes.rbac import v1 as rbac

from agentenv.components._lib.namespace_network_policy import ANYWHERE, API, DNS, Ports
from agentenv.components._lib.options import ChildOptions
from agentenv.config.sections.cost import Alertmanager
from agentenv.core.metering import locations

Rule = dict[str, Any]
_APP = "app.kubernetes.io/name"
_READ = ["get", "list", "watch"]

# The resources that OpenCost watches; ConfigMaps only in its own namespace.
_OPENCOST_RULES: Sequence[Rule] = (
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
        "verbs": _READ,
    },
    {"api_groups": ["apps"], "resources": ["deployments", "statefulsets", "daemonsets", "replicasets"], "verbs": _READ},
    {"api_groups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": _READ},
    {"api_groups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": _READ},
    {"api_groups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _READ},
    {"api_groups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": _READ},
)
# The kubelets' metrics, but not `nodes/proxy`, which would allow exec into any pod.
_PROMETHEUS_RULES: Sequence[Rule] = (
    {"api_groups": [""], "resources": ["nodes"], "verbs": _READ},
    {"api_groups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
)


def exporters(*, service: bool) -> dict[str, int]:
    """Return the metrics port of pods to scrape, by namespace."""
    ports = {
        locations.MEASURES: locations.MEASURES_PORT,
        locations.KARPENTER: locations.KARPENTER_PORT,
        locations.SANDBOX_CONTROLLER: locations.SANDBOX_CONTROLLER_PORT,
    }
    return {**ports, locations.SERVICE: locations.SERVICE_PORT} if service else ports


def create_roles(name: str, child: ChildOptions, *, service: bool) -> list[pulumi.Resource]:
    """Create the roles and bindings; Prometheus lists pods only in namespaces that it scrapes."""
    created: list[pulumi.Resource] = [
        *_cluster_role(name, locations.PROMETHEUS, _PROMETHEUS_RULES, child),
        *_cluster_role(name, locations.OPENCOST, _OPENCOST_RULES, child),
        *_namespaced_role(name, locations.OPENCOST, locations.NAMESPACE, "configmaps", child),
    ]
    for namespace in exporters(service=service):
        created += _namespaced_role(name, locations.PROMETHEUS, namespace, "pods", child)
    return created


def _cluster_role(name: str, app: str, rules: Sequence[Rule], child: ChildOptions) -> list[pulumi.Resource]:
    role_name = f"{locations.NAMESPACE}-{app}"
    role = rbac.ClusterRole(f"{name}-{app}", metadata={"name": role_name}, rules=[*rules], opts=child())  # pyright: ignore[reportArgumentType] - plain data of its shape
    binding = rbac.ClusterRoleBinding(
        f"{name}-{app}",
        metadata={"name": role_name},
        role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role_name},
        subjects=[_account(app)],
        opts=child(pulumi.ResourceOptions(depends_on=[role])),
    )
    return [role, binding]


def _namespaced_role(name: str, app: str, namespace: str, resource: str, child: ChildOptions) -> list[pulumi.Resource]:
    role_name = f"{locations.NAMESPACE}-{app}"
    role = rbac.Role(
        f"{name}-{app}-{namespace}",
        metadata={"name": role_name, "namespace": namespace},
        rules=[{"api_groups": [""], "resources": [resource], "verbs": _READ}],
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
    return {"kind": "ServiceAccount", "name": app, "namespace": locations.NAMESPACE}


def network_policies(*, service: bool, alertmanager: Alertmanager | None = None) -> dict[str, Rule]:
    """Return the spec of each network policy, by name.

    Port forwarding and probes come from the pod's own node, which network policies do not restrict.
    """
    scraped = [_to(_namespace(namespace), port) for namespace, port in exporters(service=service).items()]
    if alertmanager is not None:
        scraped.append(_to(_namespace(alertmanager.namespace), alertmanager.port))
    readers = [_app(locations.GRAFANA), _app(locations.OPENCOST)]
    if service:
        readers.append({**_namespace(locations.SERVICE), **_app(locations.SERVICE)})
    to_prometheus = _to(_app(locations.PROMETHEUS), locations.PROMETHEUS_PORT)
    return {
        locations.PROMETHEUS: _policy(
            locations.PROMETHEUS,
            [{"from": readers, "ports": [Ports(locations.PROMETHEUS_PORT).rule()]}],
            [
                _anywhere(*API, *DNS, Ports(locations.KUBELET_PORT)),
                _to(_app(locations.OPENCOST), locations.OPENCOST_PORT),
                *scraped,
            ],
        ),
        locations.OPENCOST: _policy(
            locations.OPENCOST,
            [{"from": [_app(locations.PROMETHEUS)], "ports": [Ports(locations.OPENCOST_PORT).rule()]}],
            # The Kubernetes API, and on the same port the AWS price list.
            [_anywhere(*API, *DNS), to_prometheus],
        ),
        locations.GRAFANA: _policy(locations.GRAFANA, [], [_anywhere(*DNS), to_prometheus]),
    }


def create_network_policies(
    name: str,
    namespace: pulumi.Input[str],
    child: ChildOptions,
    *,
    service: bool,
    alertmanager: Alertmanager | None,
) -> Sequence[pulumi.Resource]:
    """Create the network policies: in strict mode a pod without one has no traffic."""
    return [
        networking.NetworkPolicy(
            f"{name}-{app}",
            metadata={"name": app, "namespace": namespace},
            spec=spec,  # pyright: ignore[reportArgumentType] - plain data of its shape
            opts=child(),
        )
        for app, spec in network_policies(service=service, alertmanager=alertmanager).items()
    ]


def _policy(app: str, ingress: list[Rule], egress: list[Rule]) -> Rule:
    return {**_app(app), "policyTypes": ["Ingress", "Egress"], "ingress": ingress, "egress": egress}


def _app(app: str) -> Rule:
    return {"podSelector": {"matchLabels": {_APP: app}}}


def _namespace(namespace: str) -> Rule:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}


def _to(peer: Rule, port: int) -> Rule:
    return {"to": [peer], "ports": [Ports(port).rule()]}


def _anywhere(*ports: Ports) -> Rule:
    anywhere = {"ipBlock": {"cidr": ANYWHERE, "except": ["169.254.0.0/16"]}}
    return {"to": [anywhere], "ports": [port_range.rule() for port_range in ports]}
