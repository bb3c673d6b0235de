"""EKS add-ons: stored by name in a cluster; a version must be one that EKS offers for the cluster's version."""

from __future__ import annotations

import json
import time
from datetime import UTC
from typing import TYPE_CHECKING, Any

import jsonschema
import yaml

from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError
from agentenv.rehearsal.cloud.rows import eks_pod_identity
from agentenv.rehearsal.cloud.rows.eks_common import (
    arn,
    catalog,
    check_role,
    cluster_of,
    cluster_records,
    now,
    record_update,
)
from agentenv.rehearsal.controlplane.nodes import fargate

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext
    from agentenv.rehearsal.cloud.store import Record

ADDONS = "eks.addons"


def _builds(name: str, cluster_version: str) -> list[str]:
    versions: dict[str, list[str]] = catalog()["addons"][name]["versions"]
    return [version for version, clusters in versions.items() if cluster_version in clusters]


def _build(context: RequestContext, cluster: Any) -> str:
    name, version = context.parameters["addonName"], context.parameters.get("addonVersion")
    if name not in catalog()["addons"]:
        supported = ", ".join(sorted(catalog()["addons"]))
        raise AwsError(
            "InvalidParameterException", f"Addon {name} specified is not supported. Known here: {supported}."
        )
    builds = _builds(name, cluster.version)
    if not builds or (version and version not in builds):
        text = f"Addon version specified is not supported: {name} {version or ''} on Kubernetes {cluster.version}."
        raise AwsError("InvalidParameterException", f"{text} Known here: {', '.join(builds) or 'none'}.")
    return version or builds[0]


def _check_configuration(context: RequestContext) -> None:
    text = context.parameters.get("configurationValues")
    if not text:
        return
    try:
        values = yaml.safe_load(text)  # JSON is YAML, and EKS takes either
    except yaml.YAMLError as error:
        values = error
    if not isinstance(values, dict):
        text = "ConfigurationValue provided in request is not supported: it is neither a JSON nor a YAML object."
        raise AwsError("InvalidParameterException", text, addonName=context.parameters["addonName"])
    name = context.parameters["addonName"]
    errors = sorted(error.message for error in jsonschema.Draft6Validator(_schema(name)).iter_errors(values))
    if errors:
        text = "ConfigurationValue provided in request is not supported: Json schema validation failed with error"
        raise AwsError("InvalidParameterException", f"{text}: {errors}", addonName=name)


def _schema(name: str) -> dict[str, Any]:
    """Return the schema of an add-on's configuration; any object where the documents name no properties."""
    schema: dict[str, Any] = catalog()["addons"][name].get("configuration", {"type": "object"})
    return {"$schema": "http://json-schema.org/draft-06/schema#", **schema}


def _addon(context: RequestContext) -> Record:
    cluster = cluster_of(context)
    name = context.parameters["addonName"]
    addon = context.records(ADDONS).get(f"{cluster.name}/{name}")
    if addon is None:
        text = f"No addon: {name} found in cluster: {cluster.name}"
        raise AwsError("ResourceNotFoundException", text, clusterName=cluster.name, addonName=name)
    return addon


def create(context: RequestContext) -> dict[str, Any]:
    """Create an add-on that is active at once, unless its pods miss the webhook of their new Fargate profile."""
    cluster, parameters = cluster_of(context), context.parameters
    name = parameters["addonName"]
    version = _build(context, cluster)
    if f"{cluster.name}/{name}" in context.records(ADDONS):
        text = "Addon already exists."
        raise AwsError("ResourceInUseException", text, clusterName=cluster.name, addonName=name)
    _check_configuration(context)
    if role := parameters.get("serviceAccountRoleArn"):
        check_role(context, role, "The service account role is not valid")
    issues = _issues(context, cluster)
    addon = {
        "addonName": name,
        "clusterName": cluster.name,
        "status": "DEGRADED" if issues else "ACTIVE",
        "addonVersion": version,
        "health": {"issues": issues},
        "addonArn": arn(context, f"addon/{cluster.name}/{name}/{eks_pod_identity.identifier('')}"),
        "createdAt": now(),
        "modifiedAt": now(),
        "serviceAccountRoleArn": role,
        "tags": parameters.get("tags", {}),
        "owner": catalog()["addons"][name].get("owner", "aws"),
        "publisher": "eks",
        "configurationValues": parameters.get("configurationValues"),
        "namespaceConfig": parameters.get("namespaceConfig"),
    }
    addon["podIdentityAssociations"] = _associate(context, addon)
    context.records(ADDONS)[f"{cluster.name}/{name}"] = addon
    return {"addon": addon}


def _issues(context: RequestContext, cluster: Any) -> list[Record]:
    """Return the issues of CoreDNS on Fargate that came right after its profile: its pods stay Pending."""
    configuration = yaml.safe_load(context.parameters.get("configurationValues") or "{}")
    if context.parameters["addonName"] != "coredns" or configuration.get("computeType", "").lower() != "fargate":
        return []
    for name, profile in cluster.fargate_profiles.items():
        created_at = profile.created_at.replace(tzinfo=UTC)
        parsed = fargate.parse_profile(
            {"fargateProfileName": name, "selectors": profile.selectors, "createdAt": created_at}
        )
        if parsed.selects("kube-system", {"k8s-app": "kube-dns"}) and parsed.marks_pods(time.time()):
            return []
    text = "The add-on is unhealthy because it doesn't have the desired number of replicas."
    return [{"code": "InsufficientNumberOfReplicas", "message": text, "resourceIds": []}]


def _associate(context: RequestContext, addon: Record) -> list[str]:
    associations = context.parameters.get("podIdentityAssociations", [])
    own = catalog()["addons"][addon["addonName"]].get("podIdentity", [])
    for association in associations:
        if association["serviceAccount"] not in own:
            text = f"The add-on {addon['addonName']} has no service account {association['serviceAccount']}."
            raise AwsError("InvalidParameterException", text, addonName=addon["addonName"])
    namespace = (addon.get("namespaceConfig") or {}).get("namespace", "kube-system")
    return [
        eks_pod_identity.associate(
            context,
            addon["clusterName"],
            namespace,
            association["serviceAccount"],
            association["roleArn"],
            owner=addon["addonArn"],
        )["associationArn"]
        for association in associations
    ]


def update(context: RequestContext) -> dict[str, Any]:
    """Update the given members; the configuration is replaced as a whole, as in AWS."""
    addon, cluster = _addon(context), cluster_of(context)
    parameters = context.parameters
    if parameters.get("addonVersion"):
        addon["addonVersion"] = _build(context, cluster)
    _check_configuration(context)
    for name in ("serviceAccountRoleArn", "configurationValues"):
        if name in parameters:
            addon[name] = parameters[name]
    if "podIdentityAssociations" in parameters:
        eks_pod_identity.delete_owned(context, addon["addonArn"])
        addon["podIdentityAssociations"] = _associate(context, addon)
    addon["modifiedAt"] = now()
    changes = {"AddonVersion": addon["addonVersion"], "ConfigurationValues": addon.get("configurationValues")}
    return {"update": record_update(context, cluster.name, "AddonUpdate", changes)}


def delete(context: RequestContext) -> dict[str, Any]:
    """Delete an add-on with the Pod Identity associations that it owns."""
    addon = _addon(context)
    del context.records(ADDONS)[f"{addon['clusterName']}/{addon['addonName']}"]
    eks_pod_identity.delete_owned(context, addon["addonArn"])
    return {"addon": {**addon, "status": "DELETING"}}


def list_addons(context: RequestContext) -> dict[str, Any]:
    """Return the add-ons of a cluster, by name."""
    names = sorted(addon["addonName"] for addon in cluster_records(context, ADDONS, cluster_of(context).name).values())
    shown, token = page(names, context.parameters.get("maxResults"), context.parameters.get("nextToken"))
    return {"addons": shown, "nextToken": token}


def describe_versions(context: RequestContext) -> dict[str, Any]:
    """Return the catalog, filtered by name and cluster version."""
    parameters = context.parameters
    infos: list[dict[str, Any]] = []
    for name, addon in catalog()["addons"].items():
        if parameters.get("addonName", name) != name or addon["type"] not in parameters.get("types", [addon["type"]]):
            continue
        if addon.get("owner", "aws") not in parameters.get("owners", [addon.get("owner", "aws")]):
            continue
        builds = [
            _version_info(
                addon,
                version,
                [cluster for cluster in clusters if parameters.get("kubernetesVersion", cluster) == cluster],
            )
            for version, clusters in addon["versions"].items()
        ]
        builds = [build for build in builds if build["compatibilities"]]
        if builds:
            owner = addon.get("owner", "aws")
            infos.append(
                {"addonName": name, "type": addon["type"], "owner": owner, "publisher": "eks", "addonVersions": builds}
            )
    if parameters.get("addonName") and parameters["addonName"] not in catalog()["addons"]:
        raise AwsError("ResourceNotFoundException", f"Addon {parameters['addonName']} is not offered.")
    shown, token = page(infos, parameters.get("maxResults"), parameters.get("nextToken"))
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


def describe_configuration(context: RequestContext) -> dict[str, Any]:
    """Return the schema of an add-on's configuration, and its service accounts for Pod Identity."""
    name, version = context.parameters["addonName"], context.parameters["addonVersion"]
    if version not in catalog()["addons"].get(name, {}).get("versions", {}):
        raise AwsError("ResourceNotFoundException", f"Addon {name} has no version {version}.")
    accounts = catalog()["addons"][name].get("podIdentity", [])
    return {
        "addonName": name,
        "addonVersion": version,
        "configurationSchema": json.dumps(_schema(name)),
        "podIdentityConfiguration": [{"serviceAccount": each, "recommendedManagedPolicies": []} for each in accounts],
    }


ROWS = (
    OperationHandler("eks", "CreateAddon", create, stored_only=True),
    OperationHandler("eks", "DescribeAddon", lambda context: {"addon": _addon(context)}),
    OperationHandler("eks", "ListAddons", list_addons),
    OperationHandler("eks", "UpdateAddon", update, stored_only=True),
    OperationHandler("eks", "DeleteAddon", delete),
    OperationHandler("eks", "DescribeAddonVersions", describe_versions),
    OperationHandler("eks", "DescribeAddonConfiguration", describe_configuration),
)
