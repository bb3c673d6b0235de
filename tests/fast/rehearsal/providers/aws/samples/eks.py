"""Samples of EKS."""

from typing import Any

from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, TAGS, Ground, Sample


def _subnets(ground: Ground) -> list[str]:
    vpc = ground.vpc()
    return [ground.subnet(vpc), ground.subnet(vpc, "10.20.2.0/24", "us-east-1b")]


def _cluster(ground: Ground) -> str:
    name = ground.fresh("cluster")
    ground.client("eks").create_cluster(
        name=name,
        version="1.34",
        roleArn=ground.role_arn(),
        resourcesVpcConfig={"subnetIds": _subnets(ground)},
        accessConfig={"authenticationMode": "API"},
    )
    return name


def _profile(ground: Ground) -> dict[str, Any]:
    name = _cluster(ground)
    place = ground.client("eks").describe_cluster(name=name)["cluster"]["resourcesVpcConfig"]
    return {
        "clusterName": name,
        "podExecutionRoleArn": ground.role_arn(),
        "selectors": [{"namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}}],
        "subnetIds": place["subnetIds"],
        "tags": TAGS,
    }


def _entry(ground: Ground) -> dict[str, str]:
    where = {"clusterName": _cluster(ground), "principalArn": ground.role_arn()}
    ground.client("eks").create_access_entry(**where)
    return where


def _close(ground: Ground, name: str, _: dict[str, Any]) -> object:
    return ground.client("eks").update_cluster_config(
        name=name, resourcesVpcConfig={"endpointPublicAccess": True, "publicAccessCidrs": ["0.0.0.0/0"]}
    )


VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
SAMPLES = {
    "aws:eks/cluster:Cluster": Sample(
        inputs=lambda g: {
            "roleArn": g.role_arn(),
            "version": "1.34",
            "vpcConfig": {
                "subnetIds": _subnets(g),
                "endpointPrivateAccess": True,
                "publicAccessCidrs": ["203.0.113.0/24"],
            },
            "accessConfig": {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False},
            "enabledClusterLogTypes": ["audit"],
            "tags": TAGS,
        },
        update={"version": "1.35", "enabledClusterLogTypes": ["api", "audit"], "tags": MORE_TAGS},
        update_more=lambda _, old: {"vpcConfig": {**old["vpcConfig"], "publicAccessCidrs": ["198.51.100.0/24"]}},
        replace={"name": "another"},
        behind=_close,
        drift=("vpcConfig",),
        untold=("bootstrapSelfManagedAddons", "accessConfig"),
    ),
    "aws:eks/fargateProfile:FargateProfile": Sample(
        inputs=_profile,
        update={"tags": MORE_TAGS},
        replace={"selectors": [{"namespace": "karpenter"}]},
        behind=lambda g, _, out: g.client("eks").tag_resource(resourceArn=out["arn"], tags={"owner": "somebody"}),
        drift=("tags",),
    ),
    "aws:eks/addon:Addon": Sample(
        inputs=lambda g: {
            "clusterName": _cluster(g),
            "addonName": "coredns",
            "configurationValues": '{"replicaCount":2}',
            "resolveConflictsOnCreate": "OVERWRITE",
            "preserve": True,
            "tags": TAGS,
        },
        update={
            "configurationValues": '{"replicaCount":3}',
            "resolveConflictsOnUpdate": "OVERWRITE",
            "tags": MORE_TAGS,
        },
        replace={"addonName": "kube-proxy"},
        behind=lambda g, _, out: g.client("eks").update_addon(
            clusterName=out["clusterName"], addonName=out["addonName"], configurationValues='{"replicaCount":1}'
        ),
        drift=("configurationValues",),
        untold=("preserve", "resolveConflictsOnCreate", "resolveConflictsOnUpdate"),
    ),
    "aws:eks/accessEntry:AccessEntry": Sample(
        inputs=lambda g: {
            "clusterName": _cluster(g),
            "principalArn": g.role_arn(),
            "kubernetesGroups": ["viewers"],
            "tags": TAGS,
        },
        update={"kubernetesGroups": ["viewers", "helpers"], "tags": MORE_TAGS},
        replace={"type": "EC2_LINUX"},
        behind=lambda g, _, out: g.client("eks").update_access_entry(
            clusterName=out["clusterName"], principalArn=out["principalArn"], kubernetesGroups=["everybody"]
        ),
        drift=("kubernetesGroups",),
    ),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": Sample(
        inputs=lambda g: {**_entry(g), "policyArn": VIEW, "accessScope": {"type": "cluster"}},
        replace={"accessScope": {"type": "namespace", "namespaces": ["sandbox"]}},
    ),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": Sample(
        inputs=lambda g: {
            "clusterName": _cluster(g),
            "namespace": "kube-system",
            "serviceAccount": "karpenter",
            "roleArn": g.role_arn(),
            "tags": TAGS,
        },
        update={"tags": MORE_TAGS},
        update_more=lambda g, _: {"roleArn": g.role_arn()},
        replace={"serviceAccount": "another"},
        behind=lambda g, i, out: g.client("eks").update_pod_identity_association(
            clusterName=out["clusterName"], associationId=i, roleArn=g.role_arn()
        ),
        drift=("roleArn",),
        imports=lambda i, out: f"{out['clusterName']},{i}",
    ),
}
