"""An EKS cluster that stands already."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentenv.core.adoption.problem import Shortcoming

# The first that does not mix up the policies of pods with similar names.
LEAST_CNI = (1, 22, 4)
# The cluster's own, which whoever made it keeps.
OWN_ADDONS = ("coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni")
# What the environment brings, after its nodes.
OUR_ADDONS = ("aws-efs-csi-driver", "kube-state-metrics", "metrics-server")


@dataclass(frozen=True)
class FoundCluster:
    """What there is to know of a cluster."""

    name: str
    status: str
    version: str
    authentication: str
    vpc_id: str
    private_endpoint: bool
    issuer: str


@dataclass(frozen=True)
class FoundAddon:
    """What there is to know of an add-on."""

    name: str
    build: str
    status: str
    configuration: str = ""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])


def cluster_shortcomings(found: FoundCluster, version: str, vpc_id: str | None) -> list[Shortcoming]:
    """What keeps an environment out of a cluster; `vpc_id` is the VPC that is named beside it."""
    return list(_of_cluster(found, version, vpc_id))


def _of_cluster(found: FoundCluster, version: str, vpc_id: str | None) -> Iterator[Shortcoming]:
    thing = f"cluster {found.name}"
    if found.status not in {"ACTIVE", "UPDATING"}:
        yield Shortcoming(thing, f"is {found.status}", "wait until it is ACTIVE, or name another")
    if found.version != version:
        yield Shortcoming(
            thing, f"runs Kubernetes {found.version} and not {version}", f'set cluster.version to "{found.version}"'
        )
    if "API" not in found.authentication.split("_"):
        yield Shortcoming(
            thing,
            f"authenticates by {found.authentication or 'CONFIG_MAP'}, and nodes are let in by access entries",
            f"aws eks update-cluster-config --name {found.name}"
            " --access-config authenticationMode=API_AND_CONFIG_MAP; it cannot be undone",
        )
    if not found.private_endpoint:
        yield Shortcoming(
            thing,
            "has no private endpoint, so nodes would leave the VPC to reach it",
            f"aws eks update-cluster-config --name {found.name} --resources-vpc-config endpointPrivateAccess=true",
        )
    if not found.issuer:
        yield Shortcoming(thing, "has no issuer of service account tokens", "name another")
    if vpc_id is not None and found.vpc_id != vpc_id:
        yield Shortcoming(
            thing, f"is in {found.vpc_id} and not in {vpc_id}", f"set network.existing.vpcId to {found.vpc_id}"
        )


def addon_shortcomings(cluster: str, found: Mapping[str, FoundAddon], environment: str) -> list[Shortcoming]:
    """What keeps an environment from a cluster's add-ons: its own have to be right, and ours not there yet."""
    return [*_missing(cluster, found), *_network(cluster, found.get("vpc-cni")), *_taken(cluster, found, environment)]


def _missing(cluster: str, found: Mapping[str, FoundAddon]) -> Iterator[Shortcoming]:
    for name in OWN_ADDONS:
        if name not in found:
            way_out = f"aws eks create-addon --cluster-name {cluster} --addon-name {name} --resolve-conflicts OVERWRITE"
            yield Shortcoming(f"cluster {cluster}", f"has no add-on {name}", way_out)
        elif found[name].status not in {"ACTIVE", "UPDATING"}:
            yield Shortcoming(f"add-on {name}", f"is {found[name].status}", "mend it first")


def _network(cluster: str, cni: FoundAddon | None) -> Iterator[Shortcoming]:
    if cni is None:
        return
    version = re.match(r"v(\d+)\.(\d+)\.(\d+)", cni.build)
    if version and tuple(int(part) for part in version.groups()) < LEAST_CNI:
        yield Shortcoming(
            "add-on vpc-cni",
            f"is {cni.build}, which mixes up the policies of pods with similar names",
            f"update it to v{'.'.join(map(str, LEAST_CNI))} or newer",
        )
    wanted = {"enableNetworkPolicy": "true", "env": {"NETWORK_POLICY_ENFORCING_MODE": "strict"}}
    told = _values(cni.configuration)
    env: Any = told.get("env") or {}
    if str(told.get("enableNetworkPolicy")).lower() != "true":
        yield Shortcoming("add-on vpc-cni", "enforces no NetworkPolicy", _configure(cluster, wanted))
    elif not isinstance(env, dict) or env.get("NETWORK_POLICY_ENFORCING_MODE") != "strict":  # pyright: ignore[reportUnknownMemberType] - somebody else's configuration
        yield Shortcoming(
            "add-on vpc-cni",
            "lets a new pod reach everything until its policies are found: its enforcing mode is not strict",
            f"{_configure(cluster, wanted)}; every namespace needs a policy from then on",
        )


def _configure(cluster: str, values: Mapping[str, Any]) -> str:
    text = json.dumps(values, separators=(",", ":"))
    return f"aws eks update-addon --cluster-name {cluster} --addon-name vpc-cni --configuration-values '{text}'"


def _taken(cluster: str, found: Mapping[str, FoundAddon], environment: str) -> Iterator[Shortcoming]:
    for name in OUR_ADDONS:
        if name in found and found[name].tags.get("environment") != environment:
            yield Shortcoming(
                f"add-on {name}",
                "is there already, and the environment brings its own with roles of its own",
                f"aws eks delete-addon --cluster-name {cluster} --addon-name {name} --preserve: what runs keeps"
                " running until the environment takes it over",
            )


def _values(configuration: str) -> dict[str, Any]:
    """An add-on's configuration where it is JSON; EKS takes YAML too, which says nothing here."""
    try:
        found: Any = json.loads(configuration or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType] - parsed
