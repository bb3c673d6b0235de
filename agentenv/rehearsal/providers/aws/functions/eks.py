"""Clusters, their add-ons, and identities."""

from __future__ import annotations

from typing import Any

from agentenv.rehearsal.providers.aws.api_calls import Cloud, CloudError
from agentenv.rehearsal.providers.aws.functions.common import Arguments, region_of, tags_of, told
from agentenv.rehearsal.providers.aws.policy_documents import policy_document


def cluster(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    token, at = "aws:eks/getCluster:getCluster", region_of(cloud, a)
    one = cloud.call("eks", "DescribeCluster", at, name=a["name"])["cluster"]
    identity = one.get("identity") or {}
    return told(
        token,
        one,
        id=a["name"],
        clusterId=one.get("id"),
        accessConfigs=[one["accessConfig"]] if one.get("accessConfig") else [],
        certificateAuthorities=[one["certificateAuthority"]] if one.get("certificateAuthority") else [],
        enabledClusterLogTypes=sorted(
            kind
            for setup in (one.get("logging") or {}).get("clusterLogging", [])
            if setup.get("enabled")
            for kind in setup.get("types", [])
        ),
        identities=[{"Oidcs": [identity["oidc"]]}] if identity.get("oidc") else [],
        kubernetesNetworkConfigs=[one["kubernetesNetworkConfig"]] if one.get("kubernetesNetworkConfig") else [],
        vpcConfig=one.get("resourcesVpcConfig"),
        region=at,
        tags=tags_of(one, "tags"),
    )


def addon_version(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    """The default version for that Kubernetes, or the newest."""
    at = region_of(cloud, a)
    asked = {"addonName": a["addonName"], "kubernetesVersion": a["kubernetesVersion"]}
    addons = cloud.call("eks", "DescribeAddonVersions", at, **asked)["addons"]
    versions = [v for addon in addons if addon["addonName"] == a["addonName"] for v in addon["addonVersions"]]
    usual = [v for v in versions if any(c.get("defaultVersion") for c in v.get("compatibilities", []))]
    chosen = versions if a.get("mostRecent") else usual
    if not chosen:
        raise CloudError("eks", "DescribeAddonVersions", "NotFound", f"no version of {a['addonName']} for {asked}")
    return {"id": a["addonName"], "region": at, "version": chosen[0]["addonVersion"]}


def role(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    from agentenv.rehearsal.providers.aws.rows.iam import read_document

    one = cloud.call("iam", "GetRole", RoleName=a["name"])["Role"]
    return told(
        "aws:iam/getRole:getRole",
        one,
        id=one["RoleName"],
        name=one["RoleName"],
        uniqueId=one["RoleId"],
        assumeRolePolicy=read_document(one["AssumeRolePolicyDocument"]),
        permissionsBoundary=(one.get("PermissionsBoundary") or {}).get("PermissionsBoundaryArn", ""),
        tags=tags_of(one),
    )


def document(_: Cloud, a: Arguments) -> dict[str, Any]:
    return policy_document(a)
