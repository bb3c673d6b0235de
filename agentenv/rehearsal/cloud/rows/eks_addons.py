"""EKS add-ons: kept by name in a cluster; a build must be one that EKS offers for the cluster's version."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Refused
from agentenv.rehearsal.cloud.rows import eks_pod_identity as eks_identity
from agentenv.rehearsal.cloud.rows.eks_common import arn, belonging_to, cluster_of, now, offered, refuse_role, update_of

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk
    from agentenv.rehearsal.cloud.store import Record

ADDONS = "eks.addons"


def _builds(name: str, cluster_version: str) -> list[str]:
    versions: dict[str, list[str]] = offered()["addons"][name]["versions"]
    return [version for version, clusters in versions.items() if cluster_version in clusters]


def _build(desk: Desk, cluster: Any) -> str:
    name, version = desk.asked["addonName"], desk.asked.get("addonVersion")
    if name not in offered()["addons"]:
        known = ", ".join(sorted(offered()["addons"]))
        raise Refused("InvalidParameterException", f"Addon {name} specified is not supported. Known here: {known}.")
    builds = _builds(name, cluster.version)
    if not builds or (version and version not in builds):
        text = f"Addon version specified is not supported: {name} {version or ''} on Kubernetes {cluster.version}."
        raise Refused("InvalidParameterException", f"{text} Known here: {', '.join(builds) or 'none'}.")
    return version or builds[0]


def _configuration(desk: Desk) -> None:
    text = desk.asked.get("configurationValues")
    if not text:
        return
    try:
        values = yaml.safe_load(text)  # JSON is YAML, and EKS takes either
    except yaml.YAMLError as error:
        values = error
    if not isinstance(values, dict):
        text = "ConfigurationValue provided in request is not supported: it is neither a JSON nor a YAML object."
        raise Refused("InvalidParameterException", text, addonName=desk.asked["addonName"])


def _addon(desk: Desk) -> Record:
    cluster = cluster_of(desk)
    name = desk.asked["addonName"]
    found = desk.shelf(ADDONS).get(f"{cluster.name}/{name}")
    if found is None:
        text = f"No addon: {name} found in cluster: {cluster.name}"
        raise Refused("ResourceNotFoundException", text, clusterName=cluster.name, addonName=name)
    return found


def create(desk: Desk) -> dict[str, Any]:
    """An add-on that is active at once."""
    cluster, asked = cluster_of(desk), desk.asked
    name = asked["addonName"]
    version = _build(desk, cluster)
    if f"{cluster.name}/{name}" in desk.shelf(ADDONS):
        text = "Addon already exists."
        raise Refused("ResourceInUseException", text, clusterName=cluster.name, addonName=name)
    _configuration(desk)
    if role := asked.get("serviceAccountRoleArn"):
        refuse_role(desk, role, "The service account role is not valid")
    addon = {
        "addonName": name,
        "clusterName": cluster.name,
        "status": "ACTIVE",
        "addonVersion": version,
        "health": {"issues": []},
        "addonArn": arn(desk, f"addon/{cluster.name}/{name}/{eks_identity.identifier('')}"),
        "createdAt": now(),
        "modifiedAt": now(),
        "serviceAccountRoleArn": role,
        "tags": asked.get("tags", {}),
        "owner": offered()["addons"][name].get("owner", "aws"),
        "publisher": "eks",
        "configurationValues": asked.get("configurationValues"),
        "namespaceConfig": asked.get("namespaceConfig"),
    }
    addon["podIdentityAssociations"] = _associate(desk, addon)
    desk.shelf(ADDONS)[f"{cluster.name}/{name}"] = addon
    return {"addon": addon}


def _associate(desk: Desk, addon: Record) -> list[str]:
    wanted = desk.asked.get("podIdentityAssociations", [])
    namespace = (addon.get("namespaceConfig") or {}).get("namespace", "kube-system")
    return [
        eks_identity.associate(
            desk, addon["clusterName"], namespace, one["serviceAccount"], one["roleArn"], owner=addon["addonArn"]
        )["associationArn"]
        for one in wanted
    ]


def update(desk: Desk) -> dict[str, Any]:
    """What is said changes; what is not said stays, but for the configuration, which AWS takes as a whole."""
    addon, cluster = _addon(desk), cluster_of(desk)
    asked = desk.asked
    if asked.get("addonVersion"):
        addon["addonVersion"] = _build(desk, cluster)
    _configuration(desk)
    for name in ("serviceAccountRoleArn", "configurationValues"):
        if name in asked:
            addon[name] = asked[name]
    if "podIdentityAssociations" in asked:
        eks_identity.disown(desk, addon["addonArn"])
        addon["podIdentityAssociations"] = _associate(desk, addon)
    addon["modifiedAt"] = now()
    said = {"AddonVersion": addon["addonVersion"], "ConfigurationValues": addon.get("configurationValues")}
    return {"update": update_of(desk, cluster.name, "AddonUpdate", said)}


def delete(desk: Desk) -> dict[str, Any]:
    """Gone at once, with the identities that it owned."""
    addon = _addon(desk)
    del desk.shelf(ADDONS)[f"{addon['clusterName']}/{addon['addonName']}"]
    eks_identity.disown(desk, addon["addonArn"])
    return {"addon": {**addon, "status": "DELETING"}}


def listed(desk: Desk) -> dict[str, Any]:
    """The add-ons of a cluster, by name."""
    names = sorted(one["addonName"] for one in belonging_to(desk, ADDONS, cluster_of(desk).name).values())
    shown, token = page(names, desk.asked.get("maxResults"), desk.asked.get("nextToken"))
    return {"addons": shown, "nextToken": token}


def versions(desk: Desk) -> dict[str, Any]:
    """The catalogue, narrowed to a name and a cluster version."""
    asked = desk.asked
    infos: list[dict[str, Any]] = []
    for name, addon in offered()["addons"].items():
        if asked.get("addonName", name) != name or addon["type"] not in asked.get("types", [addon["type"]]):
            continue
        if addon.get("owner", "aws") not in asked.get("owners", [addon.get("owner", "aws")]):
            continue
        builds = [
            _version_info(addon, version, [one for one in clusters if asked.get("kubernetesVersion", one) == one])
            for version, clusters in addon["versions"].items()
        ]
        builds = [build for build in builds if build["compatibilities"]]
        if builds:
            owner = addon.get("owner", "aws")
            infos.append(
                {"addonName": name, "type": addon["type"], "owner": owner, "publisher": "eks", "addonVersions": builds}
            )
    if asked.get("addonName") and asked["addonName"] not in offered()["addons"]:
        raise Refused("ResourceNotFoundException", f"Addon {asked['addonName']} is not offered.")
    shown, token = page(infos, asked.get("maxResults"), asked.get("nextToken"))
    return {"addons": shown, "nextToken": token}


def _version_info(addon: dict[str, Any], version: str, clusters: list[str]) -> dict[str, Any]:
    newest = {cluster: next(v for v, c in addon["versions"].items() if cluster in c) for cluster in clusters}
    return {
        "addonVersion": version,
        "architecture": ["amd64", "arm64"],
        "computeTypes": ["ec2", "fargate"] if addon.get("fargate") else ["ec2"],
        "compatibilities": [
            {"clusterVersion": cluster, "platformVersions": ["*"], "defaultVersion": newest[cluster] == version}
            for cluster in clusters
        ],
        "requiresConfiguration": False,
        "requiresIamPermissions": bool(addon.get("iam")),
    }


def configuration(desk: Desk) -> dict[str, Any]:
    """An add-on's configuration schema: any object, because EKS's own schemas are not at hand."""
    name, version = desk.asked["addonName"], desk.asked["addonVersion"]
    if version not in offered()["addons"].get(name, {}).get("versions", {}):
        raise Refused("ResourceNotFoundException", f"Addon {name} has no version {version}.")
    schema = {"$schema": "http://json-schema.org/draft-06/schema#", "type": "object"}
    return {"addonName": name, "addonVersion": version, "configurationSchema": json.dumps(schema)}


ROWS = (
    Row("eks", "CreateAddon", create, kept=True),
    Row("eks", "DescribeAddon", lambda desk: {"addon": _addon(desk)}),
    Row("eks", "ListAddons", listed),
    Row("eks", "UpdateAddon", update, kept=True),
    Row("eks", "DeleteAddon", delete),
    Row("eks", "DescribeAddonVersions", versions),
    Row("eks", "DescribeAddonConfiguration", configuration, kept=True),
)
