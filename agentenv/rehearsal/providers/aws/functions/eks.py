"""Functions of EKS and IAM: clusters, add-on versions, roles and policy documents."""

from __future__ import annotations

from typing import Any

from agentenv.rehearsal.providers.aws.api_calls import Cloud, CloudError
from agentenv.rehearsal.providers.aws.functions.common import Arguments, outputs_from, region_of, tags_of
from agentenv.rehearsal.providers.aws.policy_documents import policy_document


def cluster(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    token, region = "aws:eks/getCluster:getCluster", region_of(cloud, a)
    response = cloud.call("eks", "DescribeCluster", region, name=a["name"])["cluster"]
    identity, network = response.get("identity") or {}, response.get("kubernetesNetworkConfig")
    return outputs_from(
        token,
        response,
        id=a["name"],
        clusterId=response.get("id"),
        accessConfigs=[response["accessConfig"]] if response.get("accessConfig") else [],
        certificateAuthorities=[response["certificateAuthority"]] if response.get("certificateAuthority") else [],
        enabledClusterLogTypes=sorted(
            kind
            for setup in (response.get("logging") or {}).get("clusterLogging", [])
            if setup.get("enabled")
            for kind in setup.get("types", [])
        ),
        identities=[{"Oidcs": [identity["oidc"]]}] if identity.get("oidc") else [],
        kubernetesNetworkConfigs=[network] if network else [],
        vpcConfig=response.get("resourcesVpcConfig"),
        region=region,
        tags=tags_of(response, "tags"),
    )


def addon_version(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    """Return the default version for a Kubernetes version, or the newest."""
    region = region_of(cloud, a)
    parameters = {"addonName": a["addonName"], "kubernetesVersion": a["kubernetesVersion"]}
    addons = cloud.call("eks", "DescribeAddonVersions", region, **parameters)["addons"]
    versions = [v for addon in addons if addon["addonName"] == a["addonName"] for v in addon["addonVersions"]]
    defaults = [v for v in versions if any(c.get("defaultVersion") for c in v.get("compatibilities", []))]
    candidates = versions if a.get("mostRecent") else defaults
    if not candidates:
        raise CloudError("eks", "DescribeAddonVersions", "NotFound", f"no version of {a['addonName']} for {parameters}")
    return {"id": a["addonName"], "region": region, "version": candidates[0]["addonVersion"]}


def role(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    from agentenv.rehearsal.providers.aws.rows.iam import read_document

    response = cloud.call("iam", "GetRole", RoleName=a["name"])["Role"]
    return outputs_from(
        "aws:iam/getRole:getRole",
        response,
        id=response["RoleName"],
        name=response["RoleName"],
        uniqueId=response["RoleId"],
        assumeRolePolicy=read_document(response["AssumeRolePolicyDocument"]),
        permissionsBoundary=(response.get("PermissionsBoundary") or {}).get("PermissionsBoundaryArn", ""),
        tags=tags_of(response),
    )


def document(_: Cloud, a: Arguments) -> dict[str, Any]:
    return policy_document(a)
