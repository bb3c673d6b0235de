"""EKS: clusters with their settings, add-ons, access, identities and nodes."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.rehearsal.cloud.rows.eks_common import catalog
from tests.fast.rehearsal.cloud.calls import refused
from tests.fast.rehearsal.cloud.conftest import ClientFactory

VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"


@pytest.fixture(scope="module")
def eks(aws_client: ClientFactory) -> Any:
    return aws_client("eks")


@pytest.fixture
def cluster(eks: Any, role: str, places: list[str], unchanged: None) -> Iterator[dict[str, Any]]:
    yield eks.create_cluster(
        name="c",
        roleArn=role,
        version="1.35",
        resourcesVpcConfig={"subnetIds": places, "endpointPrivateAccess": True},
        accessConfig={"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False},
        logging={"clusterLogging": [{"types": ["audit"], "enabled": True}]},
        upgradePolicy={"supportType": "STANDARD"},
        tags={"owner": "platform"},
    )["cluster"]
    eks.delete_cluster(name="c")


def test_cluster_stores_every_setting(eks: Any, cluster: dict[str, Any]) -> None:
    shown = eks.describe_cluster(name="c")["cluster"]
    assert shown == cluster
    assert shown["accessConfig"] == {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False}
    assert shown["upgradePolicy"] == {"supportType": "STANDARD"}
    assert shown["deletionProtection"] is False
    assert "zonalShiftConfig" not in shown  # until somebody sets it
    assert shown["logging"]["clusterLogging"][0] == {"types": ["audit"], "enabled": True}
    network = shown["resourcesVpcConfig"]
    assert network["endpointPrivateAccess"]
    assert network["publicAccessCidrs"] == ["0.0.0.0/0"]
    assert network["clusterSecurityGroupId"].startswith("sg-")
    assert base64.b64decode(shown["certificateAuthority"]["data"]).startswith(b"-----BEGIN CERTIFICATE-----")
    assert eks.list_access_entries(clusterName="c")["accessEntries"] == []


def test_invalid_clusters_are_refused(eks: Any, role: str, places: list[str], cluster: dict[str, Any]) -> None:
    good = {"name": "d", "roleArn": role, "resourcesVpcConfig": {"subnetIds": places}}
    network = good["resourcesVpcConfig"]
    wrong = (
        {"version": "1.19"},
        {"roleArn": "arn:aws:iam::123456789012:role/nobody"},
        {"resourcesVpcConfig": {"subnetIds": places[:1]}},
        {"resourcesVpcConfig": {"subnetIds": ["subnet-1", "subnet-2"]}},
        {"resourcesVpcConfig": {**network, "endpointPublicAccess": False}},
        {"resourcesVpcConfig": {**network, "publicAccessCidrs": ["10.0.0.0/8"]}},
        {"resourcesVpcConfig": {**network, "securityGroupIds": ["sg-00000000"]}},
        {"encryptionConfig": [{"resources": ["secrets"], "provider": {"keyArn": "arn:aws:kms:us-east-1:1:key/none"}}]},
        *(
            {"kubernetesNetworkConfig": {"serviceIpv4Cidr": cidr}}
            for cidr in ("172.16.0.0/11", "172.20.0.0/25", "100.64.0.0/16", "10.0.128.0/20", "services")
        ),
    )
    for arguments in wrong:
        with refused("InvalidParameterException"):
            eks.create_cluster(**{**good, **arguments})
    with refused("ResourceInUseException"):
        eks.create_cluster(**{**good, "name": "c"})
    with refused("ResourceNotFoundException"):
        eks.describe_cluster(name="d")


def test_updates_are_exclusive_and_recorded(eks: Any, cluster: dict[str, Any]) -> None:
    def update(**arguments: Any) -> dict[str, Any]:
        return eks.update_cluster_config(name="c", **arguments)["update"]

    created = update(deletionProtection=True)
    assert (created["type"], created["status"]) == ("DeletionProtectionUpdate", "Successful")
    assert eks.describe_update(name="c", updateId=created["id"])["update"] == created
    assert eks.list_updates(name="c")["updateIds"] == [created["id"]]
    with refused("InvalidRequestException"):
        eks.delete_cluster(name="c")
    update(deletionProtection=False)
    update(logging={"clusterLogging": [{"types": ["api"], "enabled": True}]})
    assert eks.describe_cluster(name="c")["cluster"]["logging"]["clusterLogging"][0]["types"] == ["api", "audit"]
    with refused("InvalidParameterException"):
        update(logging={"clusterLogging": [{"types": ["api"], "enabled": True}]})
    assert update(resourcesVpcConfig={"publicAccessCidrs": ["203.0.113.0/24"]})["type"] == "EndpointAccessUpdate"
    with refused("InvalidParameterException"):
        update(resourcesVpcConfig={"publicAccessCidrs": ["203.0.113.0/24"]})
    with refused("InvalidParameterException"):
        update(accessConfig={"authenticationMode": "CONFIG_MAP"})
    with refused("InvalidParameterException"):
        eks.update_cluster_version(name="c", version="1.37")
    eks.update_cluster_version(name="c", version="1.36")
    assert eks.describe_cluster(name="c")["cluster"]["version"] == "1.36"
    with refused("ResourceNotFoundException"):
        eks.describe_update(name="c", updateId="none")


def test_secrets_encryption_is_enabled_once(aws_client: ClientFactory, eks: Any, role: str, places: list[str]) -> None:
    eks.create_cluster(name="k", roleArn=role, resourcesVpcConfig={"subnetIds": places})
    key = aws_client("kms").create_key()["KeyMetadata"]
    config = [{"resources": ["secrets"], "provider": {"keyArn": key["Arn"]}}]
    eks.associate_encryption_config(clusterName="k", encryptionConfig=config)
    assert eks.describe_cluster(name="k")["cluster"]["encryptionConfig"] == config
    with refused("InvalidParameterException"):
        eks.associate_encryption_config(clusterName="k", encryptionConfig=config)
    eks.delete_cluster(name="k")
    aws_client("kms").schedule_key_deletion(KeyId=key["KeyId"])


def test_addon_builds_match_the_cluster_version(eks: Any, cluster: dict[str, Any], role: str) -> None:
    addon = eks.create_addon(clusterName="c", addonName="vpc-cni", tags={"a": "b"})["addon"]
    assert addon["status"] == "ACTIVE"
    assert addon["addonVersion"] == next(iter(catalog()["addons"]["vpc-cni"]["versions"]))
    with refused("ResourceInUseException"):
        eks.create_addon(clusterName="c", addonName="vpc-cni")
    for arguments in (
        {"addonName": "nonsense"},
        {"addonName": "coredns", "addonVersion": "v0"},
        {"addonName": "kube-proxy", "addonVersion": "v1.36.0-eksbuild.21"},
        {"addonName": "coredns", "configurationValues": "]"},
        {"addonName": "coredns", "serviceAccountRoleArn": "arn:aws:iam::123456789012:role/nobody"},
    ):
        with refused("InvalidParameterException"):
            eks.create_addon(clusterName="c", **arguments)
    update = eks.update_addon(
        clusterName="c", addonName="vpc-cni", configurationValues='{"enableNetworkPolicy":"true"}'
    )
    assert eks.describe_update(name="c", updateId=update["update"]["id"])["update"]["type"] == "AddonUpdate"
    shown = eks.describe_addon(clusterName="c", addonName="vpc-cni")["addon"]
    assert shown["configurationValues"] == '{"enableNetworkPolicy":"true"}'
    assert shown["addonVersion"] == addon["addonVersion"]
    eks.create_addon(
        clusterName="c",
        addonName="aws-efs-csi-driver",
        podIdentityAssociations=[{"serviceAccount": "efs-csi-node-sa", "roleArn": role}],
    )
    assert eks.list_addons(clusterName="c")["addons"] == ["aws-efs-csi-driver", "vpc-cni"]
    assert len(eks.list_pod_identity_associations(clusterName="c")["associations"]) == 1
    eks.delete_addon(clusterName="c", addonName="aws-efs-csi-driver")
    assert eks.list_pod_identity_associations(clusterName="c")["associations"] == []
    with refused("ResourceNotFoundException"):
        eks.describe_addon(clusterName="c", addonName="coredns")
    with refused("ResourceNotFoundException"):
        eks.create_addon(clusterName="none", addonName="coredns")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("coredns", {"configurationValues": '{"computeTyp": "Fargate"}'}),
        ("coredns", {"configurationValues": '{"autoScaling": {"minReplicas": 1}}'}),
        ("vpc-cni", {"configurationValues": '{"enableNetworkPolicy": true}'}),
        ("aws-efs-csi-driver", {"podIdentityAssociations": [{"serviceAccount": "efs", "roleArn": ""}]}),
    ],
)
def test_addons_refuse_unknown_configuration(
    eks: Any, cluster: dict[str, Any], role: str, name: str, arguments: dict[str, Any]
) -> None:
    for association in arguments.get("podIdentityAssociations", []):
        association["roleArn"] = role
    with refused("InvalidParameterException"):
        eks.create_addon(clusterName="c", addonName=name, **arguments)


def test_addon_catalogue_has_versions_and_schemas(eks: Any) -> None:
    found = eks.describe_addon_versions(addonName="kube-proxy", kubernetesVersion="1.35")["addons"][0]["addonVersions"]
    assert [build["addonVersion"] for build in found if build["compatibilities"][0]["defaultVersion"]] == [
        found[0]["addonVersion"]
    ]
    assert len(eks.describe_addon_versions()["addons"]) == len(catalog()["addons"])
    shown = eks.describe_addon_configuration(addonName="kube-proxy", addonVersion=found[0]["addonVersion"])
    assert '"object"' in shown["configurationSchema"]
    for name, addon in catalog()["addons"].items():
        for version, clusters in addon["versions"].items():
            assert set(clusters) <= set(catalog()["cluster_versions"]), (name, version)


def test_access_entries_have_policies(eks: Any, cluster: dict[str, Any], role: str) -> None:
    entry = eks.create_access_entry(clusterName="c", principalArn=role, kubernetesGroups=["readers"])["accessEntry"]
    assert entry["username"] == "arn:aws:sts::123456789012:assumed-role/cluster/{{SessionName}}"
    with refused("ResourceInUseException"):
        eks.create_access_entry(clusterName="c", principalArn=role)
    with refused("InvalidParameterException"):
        eks.create_access_entry(clusterName="c", principalArn="arn:aws:iam::123456789012:role/nobody")
    with refused("InvalidParameterException"):
        eks.create_access_entry(clusterName="c", principalArn="platform")
    with refused("InvalidParameterException"):
        eks.update_access_entry(clusterName="c", principalArn=role, kubernetesGroups=["system:masters"])
    elsewhere = "arn:aws:iam::999999999999:role/platform"
    eks.create_access_entry(clusterName="c", principalArn=elsewhere)
    arguments = {"clusterName": "c", "principalArn": role, "policyArn": VIEW}
    scope = {"type": "namespace", "namespaces": ["a"]}
    assert eks.associate_access_policy(**arguments, accessScope=scope)["associatedAccessPolicy"]["accessScope"] == scope
    eks.associate_access_policy(**arguments, accessScope={"type": "cluster"})
    names = {"clusterName": "c", "principalArn": role}
    shown = eks.list_associated_access_policies(**names)["associatedAccessPolicies"]
    assert [(policy["policyArn"], policy["accessScope"]["type"]) for policy in shown] == [(VIEW, "cluster")]
    with refused("ResourceNotFoundException"):
        eks.associate_access_policy(**{**arguments, "policyArn": VIEW + "s"}, accessScope={"type": "cluster"})
    with refused("InvalidParameterException"):
        eks.associate_access_policy(**arguments, accessScope={"type": "namespace"})
    assert eks.list_access_entries(clusterName="c", associatedPolicyArn=VIEW)["accessEntries"] == [role]
    eks.disassociate_access_policy(**arguments)
    with refused("ResourceNotFoundException"):
        eks.disassociate_access_policy(**arguments)
    eks.delete_access_entry(**names)
    with refused("ResourceNotFoundException"):
        eks.describe_access_entry(**names)
    assert {"name": "AmazonEKSViewPolicy", "arn": VIEW} in eks.list_access_policies()["accessPolicies"]


def test_pod_identities_and_identity_providers_are_stored(eks: Any, cluster: dict[str, Any], role: str) -> None:
    pod = {"clusterName": "c", "namespace": "n", "serviceAccount": "s"}
    created = eks.create_pod_identity_association(**pod, roleArn=role)["association"]
    with refused("ResourceInUseException"):
        eks.create_pod_identity_association(**pod, roleArn=role)
    with refused("InvalidParameterException"):
        eks.create_pod_identity_association(**{**pod, "namespace": "m"}, roleArn="arn:aws:iam::123456789012:role/none")
    names = {"clusterName": "c", "associationId": created["associationId"]}
    eks.update_pod_identity_association(**names, disableSessionTags=True)
    assert eks.describe_pod_identity_association(**names)["association"]["disableSessionTags"]
    eks.delete_pod_identity_association(**names)
    with refused("ResourceNotFoundException"):
        eks.describe_pod_identity_association(**names)

    oidc = {"identityProviderConfigName": "people", "issuerUrl": "https://login.example.com", "clientId": "k"}
    with refused("InvalidParameterException"):
        eks.associate_identity_provider_config(clusterName="c", oidc={**oidc, "issuerUrl": "http://login.example.com"})
    eks.associate_identity_provider_config(clusterName="c", oidc=oidc)
    with refused("ResourceInUseException"):
        eks.associate_identity_provider_config(clusterName="c", oidc={**oidc, "identityProviderConfigName": "more"})
    config = {"clusterName": "c", "identityProviderConfig": {"type": "oidc", "name": "people"}}
    assert eks.describe_identity_provider_config(**config)["identityProviderConfig"]["oidc"]["status"] == "ACTIVE"
    assert eks.list_identity_provider_configs(clusterName="c")["identityProviderConfigs"] == [
        config["identityProviderConfig"]
    ]
    eks.disassociate_identity_provider_config(**config)


def test_nodes_have_no_ssh_key_by_default(eks: Any, cluster: dict[str, Any], role: str, places: list[str]) -> None:
    arguments = {"clusterName": "c", "subnets": places, "nodeRole": role}
    group = eks.create_nodegroup(**arguments, nodegroupName="n")["nodegroup"]
    assert "remoteAccess" not in group
    assert (group["version"], group["updateConfig"]) == ("1.35", {"maxUnavailable": 1})
    for wrong in (
        {"subnets": ["subnet-1"]},
        {"version": "1.36"},
        {"scalingConfig": {"minSize": 3, "desiredSize": 1, "maxSize": 2}},
        {"nodeRole": "arn:aws:iam::123456789012:role/nobody"},
    ):
        with refused("InvalidParameterException"):
            eks.create_nodegroup(**{**arguments, **wrong}, nodegroupName="m")
    profile = {"clusterName": "c", "fargateProfileName": "f", "podExecutionRoleArn": role, "subnets": places}
    eks.create_fargate_profile(**profile, selectors=[{"namespace": "x"}])
    for selectors in ([], [{"namespace": str(number)} for number in range(6)]):
        with refused("InvalidParameterException"):
            eks.create_fargate_profile(**{**profile, "fargateProfileName": "g"}, selectors=selectors)
    with refused("ResourceNotFoundException"):
        eks.list_fargate_profiles(clusterName="none")
    with refused("ResourceInUseException"):
        eks.delete_cluster(name="c")
    eks.delete_fargate_profile(clusterName="c", fargateProfileName="f")
    with refused("ResourceInUseException"):
        eks.delete_cluster(name="c")
    eks.delete_nodegroup(clusterName="c", nodegroupName="n")


def test_everything_of_eks_can_be_tagged(eks: Any, cluster: dict[str, Any], role: str) -> None:
    entry = eks.create_access_entry(clusterName="c", principalArn=role, tags={"a": "b"})["accessEntry"]
    for arn, before in ((entry["accessEntryArn"], {"a": "b"}), (cluster["arn"], {"owner": "platform"})):
        assert eks.list_tags_for_resource(resourceArn=arn)["tags"] == before
        eks.tag_resource(resourceArn=arn, tags={"c": "d"})
        assert eks.list_tags_for_resource(resourceArn=arn)["tags"] == {**before, "c": "d"}
        eks.untag_resource(resourceArn=arn, tagKeys=["c"])
        assert eks.list_tags_for_resource(resourceArn=arn)["tags"] == before
    with refused("NotFoundException"):
        eks.list_tags_for_resource(resourceArn=cluster["arn"] + "x")


def test_creator_is_an_administrator_by_default(eks: Any, role: str, places: list[str]) -> None:
    access = {"authenticationMode": "API_AND_CONFIG_MAP"}
    eks.create_cluster(name="e", roleArn=role, resourcesVpcConfig={"subnetIds": places}, accessConfig=access)
    (creator,) = eks.list_access_entries(clusterName="e")["accessEntries"]
    (policy,) = eks.list_associated_access_policies(clusterName="e", principalArn=creator)["associatedAccessPolicies"]
    assert policy["policyArn"].endswith("/AmazonEKSClusterAdminPolicy")
    eks.delete_cluster(name="e")
    eks.create_cluster(name="e", roleArn=role, resourcesVpcConfig={"subnetIds": places})
    with refused("InvalidRequestException"):
        eks.list_access_entries(clusterName="e")
    eks.delete_cluster(name="e")
