"""The cluster's graph: what EKS is told, who may use it, and what comes before what."""

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
from agentenv.components.cluster.cluster import cluster_transform
from agentenv.components.cluster.fargate import fargate_trust_policy, log_output
from agentenv.components.cluster.irsa import ServiceAccount, irsa_trust_policy, pod_identity_trust_policy
from agentenv.core.guardrails.principals import EKS, METER
from agentenv.core.pinned_versions import releases
from tests.fast.components.graph import ACCOUNT, CALLER, REGION, Graph, Made, registered
from tests.fast.components.shapes import FACTS, NETWORK, cluster, network
from tests.fast.config.stack_samples import settings

PLACE = AwsContext("aws", "amazonaws.com", REGION, ACCOUNT)
ISSUER = f"oidc.eks.{REGION}.amazonaws.com/id/ABC"


def graph(**given: Any) -> Graph:
    return registered(lambda: cluster(**given))


@pytest.fixture(scope="module")
def plain() -> Graph:
    """A cluster that was told no more than it has to be."""
    return graph()


def control_plane(made: Graph) -> Made:
    return made.one("eks:index:Cluster")


def trust(role: Made) -> dict[str, Any]:
    (statement,) = role.policy("assumeRolePolicy")["Statement"]
    return statement


def test_the_api_is_private_unless_ranges_are_named(plain: Graph) -> None:
    told = control_plane(plain).inputs
    assert (told["endpointPrivateAccess"], told["endpointPublicAccess"]) == (True, False)
    assert "publicAccessCidrs" not in told
    told = control_plane(graph(publicAccessCidrs=["203.0.113.0/24"])).inputs
    assert (told["endpointPrivateAccess"], told["endpointPublicAccess"]) == (True, True)
    assert told["publicAccessCidrs"] == ["203.0.113.0/24"]


def test_the_component_makes_nothing_that_is_made_here(plain: Graph) -> None:
    told = control_plane(plain).inputs
    assert told["authenticationMode"] == "API"
    assert told["skipDefaultNodeGroup"]
    assert told["skipDefaultSecurityGroups"]
    assert told["useDefaultVpcCni"]
    assert not told["createOidcProvider"]
    assert not told["bootstrapSelfManagedAddons"]
    assert not told["corednsAddonOptions"]["enabled"]
    assert not told["kubeProxyAddonOptions"]["enabled"]
    assert not {"accessEntries", "fargate", "storageClasses", "roleMappings"} & set(told)


def test_nobody_administers_a_cluster_by_having_made_it() -> None:
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
        roles = graph(facts=replace(FACTS, permissions_boundary=boundary)).of("Role")
        assert roles
        assert all(role.inputs["permissionsBoundary"] == boundary for role in roles)


def test_all_logs_are_kept_in_a_group_that_is_there_before_eks_would_make_one(plain: Graph) -> None:
    made = graph(logDays=7)
    group = made.one("LogGroup", "control-plane")
    assert group.inputs["name"] == "/aws/eks/dev-agents/cluster"
    assert group.inputs["retentionInDays"] == 7
    assert group.inputs["kmsKeyId"].endswith("key/logs")
    assert made.comes_before(group, control_plane(made))
    assert control_plane(plain).inputs["enabledClusterLogTypes"] == [
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    ]


def test_the_networks_key_for_logs_serves_the_control_planes_group() -> None:
    made = registered(network)
    served = made.one("Key", "logs").policy()["Statement"][1]["Condition"]["ArnLike"]
    assert served == {
        "kms:EncryptionContext:aws:logs:arn": [
            f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/agent-environment/dev/*",
            f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/aws/eks/dev-agents/*",
        ]
    }


def test_secrets_have_a_key_of_their_own_that_nobody_reads_with(plain: Graph) -> None:
    key = plain.one("Key", "secrets")
    assert key.inputs["enableKeyRotation"] is True
    assert control_plane(plain).inputs["encryptionConfigKeyArn"].endswith(":eks-secrets")
    actions = {action for statement in key.policy()["Statement"] for action in statement["Action"]}
    assert not [action for action in actions if action in {"kms:*", "kms:Decrypt", "kms:Encrypt"}]
    assert {"kms:CreateGrant", "kms:DescribeKey"} <= actions


@pytest.mark.parametrize("kept", [True, False])
def test_a_protected_cluster_is_kept(*, kept: bool) -> None:
    made = graph(deletionProtection=kept)
    assert control_plane(made).inputs["deletionProtection"] is kept
    assert bool(control_plane(made).protect) is bool(made.one("Key", "secrets").protect) is kept


@pytest.mark.parametrize(("asked", "told"), [("standard", "STANDARD"), ("extended", "EXTENDED")])
def test_support_ends_with_the_version_unless_somebody_pays(asked: str, told: str) -> None:
    assert control_plane(graph(supportPolicy=asked)).inputs["upgradePolicy"] == {"supportType": told}


def entries(made: Graph) -> dict[str, tuple[str, list[str]]]:
    """By principal, the last words of its policies and its groups."""
    granted: dict[str, list[str]] = {}
    for one in made.of("AccessPolicyAssociation"):
        granted.setdefault(one.inputs["principalArn"], []).append(one.inputs["policyArn"].rsplit("/", 1)[-1])
    return {
        one.inputs["principalArn"]: (
            " ".join(sorted(granted[one.inputs["principalArn"]])),
            one.inputs["kubernetesGroups"],
        )
        for one in made.of("AccessEntry")
    }


def test_everybody_named_has_an_entry_with_just_their_policy() -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role"
    made = graph(
        admins=[f"{role}/platform"],
        operators=[f"{role}/on-call"],
        readers=[f"{role}/everybody", f"arn:aws:iam::{ACCOUNT}:user/auditor"],
        deployers=[CALLER],
    )
    assert entries(made) == {
        f"{role}/platform": ("AmazonEKSClusterAdminPolicy", ["agent-environment:admins"]),
        f"{role}/on-call": ("AmazonEKSEditPolicy AmazonEKSViewPolicy", ["agent-environment:operators"]),
        f"{role}/everybody": ("AmazonEKSViewPolicy", ["agent-environment:readers"]),
        f"arn:aws:iam::{ACCOUNT}:user/auditor": ("AmazonEKSViewPolicy", ["agent-environment:readers"]),
        CALLER: ("AmazonEKSClusterAdminPolicy", ["agent-environment:deployers"]),
    }
    for one in made.of("AccessPolicyAssociation"):
        if not one.inputs["policyArn"].endswith("AmazonEKSEditPolicy"):
            assert one.inputs["accessScope"] == {"type": "cluster"}


def test_operators_look_everywhere_and_change_nothing_where_controllers_are() -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/on-call"
    made = graph(operators=[role], deployers=[CALLER])
    given = [one for one in made.of("AccessPolicyAssociation") if one.inputs["principalArn"] == role]
    scopes = {one.inputs["policyArn"].rpartition("/")[2]: one.inputs["accessScope"] for one in given}
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
    assert all(one.delete_first for one in given)


def test_whoever_makes_it_may_deploy_where_nobody_else_may_and_keeps_that(plain: Graph) -> None:
    assert entries(plain) == {CALLER: ("AmazonEKSClusterAdminPolicy", ["agent-environment:deployers"])}
    assert plain.one("AccessEntry").ignored == ["principalArn"]


def test_somebody_who_could_make_the_cluster_and_nothing_in_it_is_told_so() -> None:
    other = f"arn:aws:iam::{ACCOUNT}:role/platform"
    with pytest.raises(ArgumentError, match=r"cluster\.deployers: found .*role/ci/pipeline, which is not listed"):
        graph(admins=[other])


def test_more_people_leave_the_entries_of_others_as_they_were() -> None:
    fewer, more = (
        graph(admins=[CALLER], readers=[f"arn:aws:iam::{ACCOUNT}:role/r{n}" for n in range(count)]) for count in (1, 3)
    )
    before, after = fewer.shape(), more.shape()
    assert {key: after[key] for key in before} == before
    assert len(after) == len(before) + 4


def test_whoever_speaks_to_the_api_waits_for_the_entries_and_goes_before_them(plain: Graph) -> None:
    api = plain.one("pulumi:providers:kubernetes")
    for entry in [*plain.of("AccessEntry"), *plain.of("AccessPolicyAssociation")]:
        assert plain.comes_before(entry, api)
        for one in plain.made:
            if one.type.startswith("kubernetes:"):
                assert plain.comes_before(entry, one)
    assert api.inputs["clusterIdentifier"] == f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/dev-agents"


def test_tokens_are_trusted_from_this_issuer_without_a_thumbprint(plain: Graph) -> None:
    issuer = plain.one("OpenIdConnectProvider")
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

    made = registered(build)
    role = made.one("Role", "reader")
    assert trust(role)["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert trust(role)["Condition"] == {
        "StringEquals": {f"{ISSUER}:aud": "sts.amazonaws.com", f"{ISSUER}:sub": "system:serviceaccount:tools:indexer"}
    }
    assert made.one("RolePolicy", "reader").policy()["Statement"] == [
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
    installed = {one.inputs["addonName"]: one.inputs for one in plain.of("Addon")}
    pinned = releases().addons["1.35"]
    assert {name: one["addonVersion"] for name, one in installed.items()} == {
        name: pinned[name] for name in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent", "coredns")
    }
    network = json.loads(installed["vpc-cni"]["configurationValues"])
    assert network["enableNetworkPolicy"] == "true"
    assert network["env"]["NETWORK_POLICY_ENFORCING_MODE"] == "strict"
    assert network["env"]["ENABLE_PREFIX_DELEGATION"] == "true"
    assert json.loads(installed["coredns"]["configurationValues"]) == {"computeType": "Fargate"}
    assert installed["vpc-cni"]["serviceAccountRoleArn"].endswith(":eks-cni")
    assert all(one["preserve"] is False for one in installed.values())
    cni = trust(plain.one("Role", "cni"))["Condition"]["StringEquals"]
    assert cni[f"{ISSUER}:sub"] == "system:serviceaccount:kube-system:aws-node"


def test_another_build_of_an_add_on_can_be_asked_for() -> None:
    made = graph(addonVersions={"vpcCni": "v1.22.4-eksbuild.3"})
    assert made.one("Addon", "vpc-cni").inputs["addonVersion"] == "v1.22.4-eksbuild.3"


def test_the_sandbox_controller_may_run_on_the_systems_nodes_instead() -> None:
    made = graph(sandboxController={"place": "system"})
    assert {one.name for one in made.of("FargateProfile")} == {"eks-coredns", "eks-karpenter"}


def test_controllers_run_on_fargate_by_profiles_that_come_one_after_the_other(plain: Graph) -> None:
    profiles = {one.name: one for one in plain.of("FargateProfile")}
    assert {name: one.inputs["selectors"] for name, one in profiles.items()} == {
        "eks-coredns": [{"namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}}],
        "eks-karpenter": [{"namespace": "karpenter"}],
        "eks-agent-sandbox": [{"namespace": "agent-sandbox-system"}],
    }
    assert all(one.inputs["subnetIds"] == ["subnet-a", "subnet-b"] for one in profiles.values())
    assert plain.comes_before(profiles["eks-coredns"], profiles["eks-karpenter"])
    assert plain.comes_before(profiles["eks-karpenter"], profiles["eks-agent-sandbox"])
    assert plain.comes_before(profiles["eks-coredns"], plain.one("Addon", "coredns"))
    for profile in profiles.values():
        assert plain.comes_before(plain.one("ConfigMap", "fargate-logging"), profile)


def test_pods_on_fargate_are_started_for_this_cluster_and_write_into_one_group(plain: Graph) -> None:
    assert fargate_trust_policy(PLACE, "dev-agents")["Statement"][0]["Condition"] == {
        "ArnLike": {"aws:SourceArn": f"arn:aws:eks:{REGION}:{ACCOUNT}:fargateprofile/dev-agents/*"}
    }
    router = plain.one("ConfigMap", "fargate-logging").inputs
    assert (router["metadata"]["name"], router["metadata"]["namespace"]) == ("aws-logging", "aws-observability")
    group = plain.one("LogGroup", "fargate").inputs["name"]
    assert router["data"]["output.conf"] == log_output(REGION, group)
    assert f"log_group_name {group}\n" in log_output(REGION, group)
    assert "auto_create_group false" in log_output(REGION, group)
    namespace = plain.one("Namespace", "observability").inputs["metadata"]
    assert namespace["labels"] == {"aws-observability": "enabled"}
    for statement in plain.one("RolePolicy", "fargate-logs").policy()["Statement"]:
        assert all("eks-fargate" in resource for resource in statement["Resource"])


def test_file_systems_are_mounted_by_a_role_that_may_do_nothing_else() -> None:
    made = registered(lambda: cluster().efs_client_role_arns)
    (arn,) = made.result
    role = made.one("Role", "efs-node")
    assert arn.endswith(":eks-efs-node")
    told = trust(role)["Condition"]["StringEquals"]
    assert told["aws:RequestTag/kubernetes-service-account"] == "efs-csi-node-sa"
    assert not [
        one for one in [*made.of("RolePolicy"), *made.of("RolePolicyAttachment")] if role.name in one.inputs["role"]
    ]


def test_nodes_reach_the_api_names_and_metrics_of_fargate_and_no_more(plain: Graph) -> None:
    reached = {
        (one.inputs["ipProtocol"], one.inputs["fromPort"], one.inputs["toPort"])
        for one in plain.of("SecurityGroupIngressRule")
        if one.inputs["securityGroupId"] == "sg-cluster"
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
        one.inputs
        for one in plain.of("SecurityGroupIngressRule")
        if one.inputs["securityGroupId"] == "sg-nodes" and one.inputs["referencedSecurityGroupId"] == "sg-cluster"
    ]
    assert (10250, 10251) in {(one["fromPort"], one["toPort"]) for one in kubelets}
    # Nobody outside these two groups is let in, whatever the way out.
    assert all("cidrIpv4" not in one.inputs for one in plain.of("SecurityGroupIngressRule"))


def test_pods_on_fargate_reach_the_networks_endpoints_where_there_are_some(plain: Graph) -> None:
    assert not [one for one in plain.of("SecurityGroupIngressRule") if "endpoints" in one.name]
    rule = (
        graph(within=replace(NETWORK, endpoints_security_group_id="sg-doors"))
        .one("SecurityGroupIngressRule", "fargate-to-endpoints")
        .inputs
    )
    assert (rule["securityGroupId"], rule["referencedSecurityGroupId"]) == ("sg-doors", "sg-cluster")
    assert (rule["fromPort"], rule["toPort"]) == (443, 443)


def test_a_preview_of_nothing_that_exists_knows_the_graph(plain: Graph) -> None:
    first = registered(cluster, preview=True)
    assert {made.key for made in first.made} == {made.key for made in plain.made}


def test_everything_that_can_carry_tags_does(plain: Graph) -> None:
    bare = {"AccessPolicyAssociation", "Alias", "RolePolicy", "RolePolicyAttachment"}
    for one in plain.cloud():
        if one.type.rsplit(":", 1)[-1] not in bare:
            assert one.inputs["tags"]["component"] == "cluster", one.name
            assert one.inputs["tags"]["environment"] == "dev", one.name


def test_a_session_is_known_by_its_role() -> None:
    assert session_role(f"arn:aws:sts::{ACCOUNT}:assumed-role/pipeline/run-1") == "pipeline"
    assert session_role(f"arn:aws:iam::{ACCOUNT}:user/somebody") is None
    assert principal_name(f"arn:aws:sts::{ACCOUNT}:user/somebody") == f"arn:aws:iam::{ACCOUNT}:user/somebody"
    one, other = (slug(f"arn:aws:iam::{account}:role/platform") for account in ("111111111111", "222222222222"))
    assert one != other
    assert one.startswith("platform-")


def test_who_can_deploy_is_known_from_who_is_named() -> None:
    def access(**named: list[str]) -> Access:
        return Access.of(settings({"cluster": named}).cluster)

    assert access(deployers=[CALLER]).can_deploy
    assert access(admins=[CALLER]).can_deploy
    assert not access(operators=[CALLER], readers=[]).can_deploy
