"""The cluster's graph: the settings of EKS, its access entries, and the order of its resources."""

from __future__ import annotations

import fnmatch
import json
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from agentenv.components._lib.arguments import ArgumentError
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import to_json
from agentenv.components.cluster.access import Access, principal_name, session_role, slug
from agentenv.components.cluster.cluster import Cluster, cluster_transform
from agentenv.components.cluster.fargate import fargate_trust_policy, log_output
from agentenv.components.cluster.irsa import ServiceAccount, irsa_trust_policy, pod_identity_trust_policy
from agentenv.core.guardrails.principals import EKS, METER
from agentenv.core.pinned_versions import releases
from tests.fast.components.graph import ACCOUNT, CALLER, REGION, Graph, RegisteredResource, registered
from tests.fast.components.shapes import FACTS, NETWORK, cluster, network, planned
from tests.fast.config.stack_samples import settings

PLACE = AwsContext("aws", "amazonaws.com", REGION, ACCOUNT)
ISSUER = f"oidc.eks.{REGION}.amazonaws.com/id/ABC"


def build_graph(**settings: Any) -> Graph:
    return registered(lambda: cluster(**settings))


@pytest.fixture(scope="module")
def plain() -> Graph:
    """A cluster with default settings."""
    return build_graph()


def control_plane(graph: Graph) -> RegisteredResource:
    return graph.resource("eks:index:Cluster")


def trust(role: RegisteredResource) -> dict[str, Any]:
    (statement,) = role.policy("assumeRolePolicy")["Statement"]
    return statement


def private_cluster() -> Cluster:
    sections = {
        "cluster": {"publicAccessCidrs": []},
        "network": {"peers": ["10.9.0.0/16"], "transitGateway": "tgw-0a1b2c3d4e5f60718"},
    }
    return Cluster("eks", planned(sections).cluster, NETWORK)


def test_the_api_is_private_unless_ranges_are_named() -> None:
    inputs = control_plane(registered(private_cluster)).inputs
    assert (inputs["endpointPrivateAccess"], inputs["endpointPublicAccess"]) == (True, False)
    assert "publicAccessCidrs" not in inputs


def test_peers_reach_the_private_api_before_anything_is_created_in_the_cluster(plain: Graph) -> None:
    graph = registered(private_cluster)
    rule = graph.resource("SecurityGroupIngressRule", "cluster-from-10-9-0-0-16")
    assert (rule.inputs["cidrIpv4"], rule.inputs["fromPort"], rule.inputs["toPort"]) == ("10.9.0.0/16", 443, 443)
    assert rule.urn in graph.resource("pulumi:providers:kubernetes").after
    assert not [each for each in plain.of("SecurityGroupIngressRule") if "cidrIpv4" in each.inputs]
    inputs = control_plane(build_graph(publicAccessCidrs=["203.0.113.0/24"])).inputs
    assert (inputs["endpointPrivateAccess"], inputs["endpointPublicAccess"]) == (True, True)
    assert inputs["publicAccessCidrs"] == ["203.0.113.0/24"]


def test_component_disables_the_defaults_of_the_official_one(plain: Graph) -> None:
    inputs = control_plane(plain).inputs
    assert inputs["authenticationMode"] == "API"
    assert inputs["skipDefaultNodeGroup"]
    assert inputs["skipDefaultSecurityGroups"]
    assert inputs["useDefaultVpcCni"]
    assert not inputs["createOidcProvider"]
    assert not inputs["bootstrapSelfManagedAddons"]
    assert not inputs["corednsAddonOptions"]["enabled"]
    assert not inputs["kubeProxyAddonOptions"]["enabled"]
    assert not {"accessEntries", "fargate", "storageClasses", "roleMappings"} & set(inputs)


def test_the_creator_of_a_cluster_is_not_its_administrator() -> None:
    opts = pulumi.ResourceOptions()
    changed = cluster_transform(None)(
        pulumi.ResourceTransformArgs(
            custom=True,
            type_="aws:eks/cluster:Cluster",
            name="eks-eksCluster",
            props={
                "version": "1.35",
                "accessConfig": {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True},
            },
            opts=opts,
        )
    )
    assert isinstance(changed, pulumi.ResourceTransformResult)
    assert changed.opts is opts
    assert changed.props == {
        "version": "1.35",
        "accessConfig": {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False},
    }


@pytest.mark.parametrize("boundary", [None, "arn:aws:iam::123456789012:policy/boundary"])
def test_the_boundary_holds_for_the_components_role_too(boundary: str | None) -> None:
    args = pulumi.ResourceTransformArgs(
        custom=True, type_="aws:iam/role:Role", name="r", props={"tags": {}}, opts=pulumi.ResourceOptions()
    )
    changed = cluster_transform(boundary)(args)
    if boundary is None:
        assert changed is None
    else:
        assert isinstance(changed, pulumi.ResourceTransformResult)
        assert changed.props["permissionsBoundary"] == boundary
        roles = build_graph(facts=replace(FACTS, permissions_boundary=boundary)).of("Role")
        assert roles
        assert all(role.inputs["permissionsBoundary"] == boundary for role in roles)


def test_log_group_is_created_before_the_cluster(plain: Graph) -> None:
    graph = build_graph(logDays=7)
    group = graph.resource("LogGroup", "control-plane")
    assert group.inputs["name"] == "/aws/eks/dev-agents/cluster"
    assert group.inputs["retentionInDays"] == 7
    assert group.inputs["kmsKeyId"].endswith("key/logs")
    assert graph.comes_before(group, control_plane(graph))
    assert control_plane(plain).inputs["enabledClusterLogTypes"] == [
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    ]


def test_the_networks_key_for_logs_serves_the_control_planes_group() -> None:
    graph = registered(network)
    served = graph.resource("Key", "logs").policy()["Statement"][1]["Condition"]["ArnLike"]
    assert served == {
        "kms:EncryptionContext:aws:logs:arn": [
            f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/agent-environment/dev/*",
            f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/aws/eks/dev-agents/*",
        ]
    }


def test_secrets_have_their_own_key_without_readers(plain: Graph) -> None:
    key = plain.resource("Key", "secrets")
    assert key.inputs["enableKeyRotation"] is True
    assert control_plane(plain).inputs["encryptionConfigKeyArn"].endswith(":eks-secrets")
    actions = {action for statement in key.policy()["Statement"] for action in statement["Action"]}
    assert not [action for action in actions if action in {"kms:*", "kms:Decrypt", "kms:Encrypt"}]
    assert {"kms:CreateGrant", "kms:DescribeKey"} <= actions


@pytest.mark.parametrize("protected", [True, False])
def test_deletion_protection_follows_its_setting(*, protected: bool) -> None:
    graph = build_graph(deletionProtection=protected)
    assert control_plane(graph).inputs["deletionProtection"] is protected
    assert bool(control_plane(graph).protect) is bool(graph.resource("Key", "secrets").protect) is protected


@pytest.mark.parametrize(("policy", "support_type"), [("standard", "STANDARD"), ("extended", "EXTENDED")])
def test_support_type_follows_the_support_policy(policy: str, support_type: str) -> None:
    assert control_plane(build_graph(supportPolicy=policy)).inputs["upgradePolicy"] == {"supportType": support_type}


def entries(graph: Graph) -> dict[str, tuple[str, list[str]]]:
    """By principal, the last words of its policies and its groups."""
    granted: dict[str, list[str]] = {}
    for association in graph.of("AccessPolicyAssociation"):
        granted.setdefault(association.inputs["principalArn"], []).append(
            association.inputs["policyArn"].rsplit("/", 1)[-1]
        )
    return {
        entry.inputs["principalArn"]: (
            " ".join(sorted(granted[entry.inputs["principalArn"]])),
            entry.inputs["kubernetesGroups"],
        )
        for entry in graph.of("AccessEntry")
    }


def test_each_principal_has_an_access_entry_with_its_policy() -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role"
    graph = build_graph(
        admins=[f"{role}/platform"],
        operators=[f"{role}/on-call"],
        readers=[f"{role}/everybody", f"arn:aws:iam::{ACCOUNT}:user/auditor"],
        deployers=[CALLER],
    )
    assert entries(graph) == {
        f"{role}/platform": ("AmazonEKSClusterAdminPolicy", ["agent-environment:admins"]),
        f"{role}/on-call": ("AmazonEKSEditPolicy AmazonEKSViewPolicy", ["agent-environment:operators"]),
        f"{role}/everybody": ("AmazonEKSViewPolicy", ["agent-environment:readers"]),
        f"arn:aws:iam::{ACCOUNT}:user/auditor": ("AmazonEKSViewPolicy", ["agent-environment:readers"]),
        CALLER: ("AmazonEKSClusterAdminPolicy", ["agent-environment:deployers"]),
    }
    for association in graph.of("AccessPolicyAssociation"):
        if not association.inputs["policyArn"].endswith("AmazonEKSEditPolicy"):
            assert association.inputs["accessScope"] == {"type": "cluster"}


def test_operators_look_everywhere_and_change_nothing_where_controllers_are() -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/on-call"
    graph = build_graph(operators=[role], deployers=[CALLER])
    associations = [
        association for association in graph.of("AccessPolicyAssociation") if association.inputs["principalArn"] == role
    ]
    scopes = {
        association.inputs["policyArn"].rpartition("/")[2]: association.inputs["accessScope"]
        for association in associations
    }
    assert scopes == {
        "AmazonEKSEditPolicy": {"type": "namespace", "namespaces": ["sandbox-*", "metering"]},
        "AmazonEKSViewPolicy": {"type": "cluster"},
    }
    hands = (EKS.sandbox_controller, EKS.service, EKS.provisioner, *EKS.collectors, *EKS.binders, *EKS.jobs, METER)
    spaces = {name.split(":")[2] for name in hands if name.startswith("system:serviceaccount:")}
    assert spaces >= {"kube-system", "agent-sandbox-system", "workspace-service", "storage-metering"}
    for pattern in scopes["AmazonEKSEditPolicy"]["namespaces"]:
        assert not fnmatch.filter(spaces, pattern)
    # EKS keeps one association for a principal and a policy: made before the old one goes, it would go with it.
    assert all(association.delete_first for association in associations)


def test_the_creator_is_the_deployer_where_none_is_named_and_stays_it(plain: Graph) -> None:
    assert entries(plain) == {CALLER: ("AmazonEKSClusterAdminPolicy", ["agent-environment:deployers"])}
    assert plain.resource("AccessEntry").ignored == ["principalArn"]


def test_a_caller_without_access_to_the_cluster_is_refused() -> None:
    other = f"arn:aws:iam::{ACCOUNT}:role/platform"
    with pytest.raises(ArgumentError, match=r"cluster\.deployers: found .*role/ci/pipeline, which is not listed"):
        build_graph(admins=[other])


def test_more_people_leave_the_entries_of_others_as_they_were() -> None:
    fewer, more = (
        build_graph(admins=[CALLER], readers=[f"arn:aws:iam::{ACCOUNT}:role/r{n}" for n in range(count)])
        for count in (1, 3)
    )
    before, after = fewer.shape(), more.shape()
    assert {key: after[key] for key in before} == before
    assert len(after) == len(before) + 4


def test_kubernetes_resources_depend_on_the_access_entries(plain: Graph) -> None:
    api = plain.resource("pulumi:providers:kubernetes")
    for entry in [*plain.of("AccessEntry"), *plain.of("AccessPolicyAssociation")]:
        assert plain.comes_before(entry, api)
        for resource in plain.resources:
            if resource.type.startswith("kubernetes:"):
                assert plain.comes_before(entry, resource)
    assert api.inputs["clusterIdentifier"] == f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/dev-agents"


def test_tokens_are_trusted_from_this_issuer_without_a_thumbprint(plain: Graph) -> None:
    issuer = plain.resource("OpenIdConnectProvider")
    assert issuer.inputs["url"] == f"https://{ISSUER}"
    assert issuer.inputs["clientIdLists"] == ["sts.amazonaws.com"]
    assert "thumbprintLists" not in issuer.inputs


def test_a_role_for_tokens_is_for_one_account_and_one_audience() -> None:
    def build() -> None:
        cluster().irsa_role(
            "reader",
            "tools",
            "indexer",
            [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"}],
        )

    graph = registered(build)
    role = graph.resource("Role", "reader")
    assert trust(role)["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert trust(role)["Condition"] == {
        "StringEquals": {f"{ISSUER}:aud": "sts.amazonaws.com", f"{ISSUER}:sub": "system:serviceaccount:tools:indexer"}
    }
    assert graph.resource("RolePolicy", "reader").policy()["Statement"] == [
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"}
    ]


@pytest.mark.parametrize("bearer", [ServiceAccount("a", "b"), ServiceAccount("kube-system", "efs-csi-node-sa")])
def test_no_trust_has_a_pattern_in_it(bearer: ServiceAccount) -> None:
    by_token = irsa_trust_policy("arn:aws:iam::1:oidc-provider/x", f"https://{ISSUER}", bearer)
    by_agent = pod_identity_trust_policy(PLACE, "dev-agents", bearer)
    for document in (by_token, by_agent):
        assert "*" not in to_json(document)
        assert "Like" not in to_json(document)
    assert by_agent["Statement"][0]["Condition"]["StringEquals"] == {
        "aws:SourceAccount": ACCOUNT,
        "aws:RequestTag/kubernetes-namespace": bearer.namespace,
        "aws:RequestTag/kubernetes-service-account": bearer.name,
    }


def test_add_ons_are_pinned_and_configured(plain: Graph) -> None:
    installed = {addon.inputs["addonName"]: addon.inputs for addon in plain.of("Addon")}
    pinned = releases().addons["1.35"]
    assert {name: addon["addonVersion"] for name, addon in installed.items()} == {
        name: pinned[name] for name in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
    }
    network = json.loads(installed["vpc-cni"]["configurationValues"])
    assert network["enableNetworkPolicy"] == "true"
    assert network["env"]["NETWORK_POLICY_ENFORCING_MODE"] == "strict"
    assert network["env"]["ENABLE_PREFIX_DELEGATION"] == "true"
    assert all(network["env"][f"DISABLE_{name}"] == "true" for name in ("INTROSPECTION", "METRICS", "POD_V6"))
    assert installed["vpc-cni"]["serviceAccountRoleArn"].endswith(":eks-cni")
    assert all(addon["preserve"] is False for addon in installed.values())
    cni = trust(plain.resource("Role", "cni"))["Condition"]["StringEquals"]
    assert cni[f"{ISSUER}:sub"] == "system:serviceaccount:kube-system:aws-node"


def test_the_version_of_an_add_on_is_a_setting() -> None:
    graph = build_graph(addonVersions={"vpcCni": "v1.22.4-eksbuild.3"})
    assert graph.resource("Addon", "vpc-cni").inputs["addonVersion"] == "v1.22.4-eksbuild.3"


def test_the_sandbox_controller_may_run_on_the_systems_nodes_instead() -> None:
    graph = build_graph(sandboxController={"place": "system"})
    assert {profile.name for profile in graph.of("FargateProfile")} == {"eks-coredns", "eks-karpenter"}


def test_controllers_run_on_fargate_by_profiles_that_come_one_after_the_other(plain: Graph) -> None:
    profiles = {profile.name: profile for profile in plain.of("FargateProfile")}
    assert {name: profile.inputs["selectors"] for name, profile in profiles.items()} == {
        "eks-coredns": [{"namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}}],
        "eks-karpenter": [{"namespace": "karpenter"}],
        "eks-agent-sandbox": [{"namespace": "agent-sandbox-system"}],
    }
    assert all(profile.inputs["subnetIds"] == ["subnet-a", "subnet-b"] for profile in profiles.values())
    assert plain.comes_before(profiles["eks-coredns"], profiles["eks-karpenter"])
    assert plain.comes_before(profiles["eks-karpenter"], profiles["eks-agent-sandbox"])
    for profile in profiles.values():
        assert plain.comes_before(plain.resource("ConfigMap", "fargate-logging"), profile)


def test_pods_on_fargate_are_started_for_this_cluster_and_write_into_one_group(plain: Graph) -> None:
    assert fargate_trust_policy(PLACE, "dev-agents")["Statement"][0]["Condition"] == {
        "ArnLike": {"aws:SourceArn": f"arn:aws:eks:{REGION}:{ACCOUNT}:fargateprofile/dev-agents/*"}
    }
    router = plain.resource("ConfigMap", "fargate-logging").inputs
    assert (router["metadata"]["name"], router["metadata"]["namespace"]) == ("aws-logging", "aws-observability")
    group = plain.resource("LogGroup", "fargate").inputs["name"]
    assert router["data"]["output.conf"] == log_output(REGION, group)
    assert f"log_group_name {group}\n" in log_output(REGION, group)
    assert "auto_create_group false" in log_output(REGION, group)
    namespace = plain.resource("Namespace", "observability").inputs["metadata"]
    assert namespace["labels"] == {"aws-observability": "enabled"}
    for statement in plain.resource("RolePolicy", "fargate-logs").policy()["Statement"]:
        assert all("eks-fargate" in resource for resource in statement["Resource"])


def test_file_systems_are_mounted_by_a_role_that_may_do_nothing_else() -> None:
    graph = registered(lambda: cluster().efs_client_role_arns)
    (arn,) = graph.result
    role = graph.resource("Role", "efs-node")
    assert arn.endswith(":eks-efs-node")
    condition = trust(role)["Condition"]["StringEquals"]
    assert condition["aws:RequestTag/kubernetes-service-account"] == "efs-csi-node-sa"
    assert not [
        policy
        for policy in [*graph.of("RolePolicy"), *graph.of("RolePolicyAttachment")]
        if role.name in policy.inputs["role"]
    ]


def test_nodes_reach_the_api_names_and_metrics_of_fargate_and_no_more(plain: Graph) -> None:
    reached = {
        (rule.inputs["ipProtocol"], rule.inputs["fromPort"], rule.inputs["toPort"])
        for rule in plain.of("SecurityGroupIngressRule")
        if rule.inputs["securityGroupId"] == "sg-cluster"
    }
    assert reached == {
        ("tcp", 443, 443),
        ("udp", 53, 53),
        ("tcp", 53, 53),
        ("tcp", 8080, 8080),
        ("tcp", 9153, 9153),
        # The metrics server is on a node, and asks the kubelets of pods on Fargate too.
        ("tcp", 10250, 10250),
    }
    kubelets = [
        rule.inputs
        for rule in plain.of("SecurityGroupIngressRule")
        if rule.inputs["securityGroupId"] == "sg-nodes" and rule.inputs["referencedSecurityGroupId"] == "sg-cluster"
    ]
    assert (10250, 10251) in {(kubelet["fromPort"], kubelet["toPort"]) for kubelet in kubelets}
    # Nobody outside these two groups is let in, whatever the way out.
    assert all("cidrIpv4" not in rule.inputs for rule in plain.of("SecurityGroupIngressRule"))


def test_pods_on_fargate_reach_the_networks_endpoints_where_there_are_some(plain: Graph) -> None:
    assert not [rule for rule in plain.of("SecurityGroupIngressRule") if "endpoints" in rule.name]
    rule = (
        build_graph(within=replace(NETWORK, endpoints_security_group_id="sg-doors"))
        .resource("SecurityGroupIngressRule", "fargate-to-endpoints")
        .inputs
    )
    assert (rule["securityGroupId"], rule["referencedSecurityGroupId"]) == ("sg-doors", "sg-cluster")
    assert (rule["fromPort"], rule["toPort"]) == (443, 443)


def test_a_preview_of_nothing_that_exists_knows_the_graph(plain: Graph) -> None:
    first = registered(cluster, preview=True)
    assert {resource.key for resource in first.resources} == {resource.key for resource in plain.resources}


def test_everything_that_can_carry_tags_does(plain: Graph) -> None:
    bare = {"AccessPolicyAssociation", "Alias", "RolePolicy", "RolePolicyAttachment"}
    for resource in plain.aws_resources():
        if resource.type.rsplit(":", 1)[-1] not in bare:
            assert resource.inputs["tags"]["component"] == "cluster", resource.name
            assert resource.inputs["tags"]["environment"] == "dev", resource.name


def test_a_session_is_known_by_its_role() -> None:
    assert session_role(f"arn:aws:sts::{ACCOUNT}:assumed-role/pipeline/run-1") == "pipeline"
    assert session_role(f"arn:aws:iam::{ACCOUNT}:user/somebody") is None
    assert principal_name(f"arn:aws:sts::{ACCOUNT}:user/somebody") == f"arn:aws:iam::{ACCOUNT}:user/somebody"
    first, second = (slug(f"arn:aws:iam::{account}:role/platform") for account in ("111111111111", "222222222222"))
    assert first != second
    assert first.startswith("platform-")


def test_who_can_deploy_is_known_from_who_is_named() -> None:
    def access(**named: list[str]) -> Access:
        return Access.of(settings({"cluster": named}).cluster)

    assert access(deployers=[CALLER]).can_deploy
    assert access(admins=[CALLER]).can_deploy
    assert not access(operators=[CALLER], readers=[]).can_deploy
