"""Checks of an existing EKS cluster and of its add-ons."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentenv.core.adoption import AdoptionProblem

# The first version that does not confuse the policies of pods with similar names.
MIN_CNI = (1, 22, 4)
# Add-ons that the owner of the cluster manages.
OWN_ADDONS = ("coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni")
# Add-ons that the environment installs after its nodes.
OUR_ADDONS = ("aws-efs-csi-driver", "kube-state-metrics", "metrics-server")


@dataclass(frozen=True)
class FoundCluster:
    """The attributes of an existing cluster."""

    name: str
    status: str
    version: str
    authentication: str
    vpc_id: str
    private_endpoint: bool
    issuer: str


@dataclass(frozen=True)
class FoundAddon:
    """The attributes of an installed add-on."""

    name: str
    build: str
    status: str
    configuration: str = ""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])


def cluster_problems(cluster: FoundCluster, version: str, vpc_id: str | None) -> list[AdoptionProblem]:
    """Return the problems of a cluster; `vpc_id` is the VPC in the settings."""
    return list(_cluster_problems(cluster, version, vpc_id))


def _cluster_problems(cluster: FoundCluster, version: str, vpc_id: str | None) -> Iterator[AdoptionProblem]:
    resource = f"cluster {cluster.name}"
    if cluster.status not in {"ACTIVE", "UPDATING"}:
        yield AdoptionProblem(resource, f"is {cluster.status}", "wait until it is ACTIVE, or use another cluster")
    if cluster.version != version:
        yield AdoptionProblem(
            resource,
            f"runs Kubernetes {cluster.version} and not {version}",
            f'set cluster.version to "{cluster.version}"',
        )
    if "API" not in cluster.authentication.split("_"):
        yield AdoptionProblem(
            resource,
            f"authenticates by {cluster.authentication or 'CONFIG_MAP'}, and nodes need access entries",
            f"aws eks update-cluster-config --name {cluster.name}"
            " --access-config authenticationMode=API_AND_CONFIG_MAP; it cannot be undone",
        )
    if not cluster.private_endpoint:
        yield AdoptionProblem(
            resource,
            "has no private endpoint, so nodes would reach it through the internet",
            f"aws eks update-cluster-config --name {cluster.name} --resources-vpc-config endpointPrivateAccess=true",
        )
    if not cluster.issuer:
        yield AdoptionProblem(resource, "has no issuer of service account tokens", "use another cluster")
    if vpc_id is not None and cluster.vpc_id != vpc_id:
        yield AdoptionProblem(
            resource, f"is in {cluster.vpc_id} and not in {vpc_id}", f"set network.existing.vpcId to {cluster.vpc_id}"
        )


def addon_problems(cluster: str, addons: Mapping[str, FoundAddon], environment: str) -> list[AdoptionProblem]:
    """Return the problems of the add-ons: required ones are missing or misconfigured, or ours already exist."""
    return [
        *_missing_addons(cluster, addons),
        *_cni_problems(cluster, addons.get("vpc-cni")),
        *_conflicting_addons(cluster, addons, environment),
    ]


def _missing_addons(cluster: str, addons: Mapping[str, FoundAddon]) -> Iterator[AdoptionProblem]:
    for name in OWN_ADDONS:
        if name not in addons:
            fix = f"aws eks create-addon --cluster-name {cluster} --addon-name {name} --resolve-conflicts OVERWRITE"
            yield AdoptionProblem(f"cluster {cluster}", f"has no add-on {name}", fix)
        elif addons[name].status not in {"ACTIVE", "UPDATING"}:
            yield AdoptionProblem(f"add-on {name}", f"is {addons[name].status}", "repair it first")


def _cni_problems(cluster: str, cni: FoundAddon | None) -> Iterator[AdoptionProblem]:
    if cni is None:
        return
    version = re.match(r"v(\d+)\.(\d+)\.(\d+)", cni.build)
    if version and tuple(int(part) for part in version.groups()) < MIN_CNI:
        yield AdoptionProblem(
            "add-on vpc-cni",
            f"is {cni.build}, which confuses the policies of pods with similar names",
            f"update it to v{'.'.join(map(str, MIN_CNI))} or newer",
        )
    expected = {"enableNetworkPolicy": "true", "env": {"NETWORK_POLICY_ENFORCING_MODE": "strict"}}
    configured = _configuration(cni.configuration)
    env: Any = configured.get("env") or {}
    if str(configured.get("enableNetworkPolicy")).lower() != "true":
        yield AdoptionProblem("add-on vpc-cni", "does not enforce network policies", _configure(cluster, expected))
    elif not isinstance(env, dict) or env.get("NETWORK_POLICY_ENFORCING_MODE") != "strict":  # pyright: ignore[reportUnknownMemberType] - somebody else's configuration
        yield AdoptionProblem(
            "add-on vpc-cni",
            "does not restrict a new pod until its policies are applied: its enforcing mode is not strict",
            f"{_configure(cluster, expected)}; every namespace then needs a network policy",
        )


def _configure(cluster: str, values: Mapping[str, Any]) -> str:
    text = json.dumps(values, separators=(",", ":"))
    return f"aws eks update-addon --cluster-name {cluster} --addon-name vpc-cni --configuration-values '{text}'"


def _conflicting_addons(cluster: str, addons: Mapping[str, FoundAddon], environment: str) -> Iterator[AdoptionProblem]:
    for name in OUR_ADDONS:
        if name in addons and addons[name].tags.get("environment") != environment:
            yield AdoptionProblem(
                f"add-on {name}",
                "already exists, and the environment installs its own with its own roles",
                f"aws eks delete-addon --cluster-name {cluster} --addon-name {name} --preserve: what runs keeps"
                " running until the environment takes it over",
            )


def _configuration(configuration: str) -> dict[str, Any]:
    """Return the configuration of an add-on if it is JSON; YAML, which EKS also accepts, is ignored."""
    try:
        values: Any = json.loads(configuration or "{}")
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}  # pyright: ignore[reportUnknownVariableType] - parsed
