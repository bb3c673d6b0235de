"""Add-ons on nodes: what they may do, what passes to them, and that they come after a place for them and go before."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest

from agentenv.components._lib.namespace_network_policy import API, DNS, Ports, network_policy_spec
from agentenv.core.metering.exporters import CLAIM, TYPE, USER, WARM, WORKSPACE, ZONE
from agentenv.core.pinned_versions import releases
from tests.fast.components.existing import EXISTING
from tests.fast.components.graph import ACCOUNT, REGION, Graph, registered
from tests.fast.components.node_shapes import capacity, cluster_addons
from tests.fast.components.shapes import cluster, storage

FILES = f"arn:aws:elasticfilesystem:{REGION}:{ACCOUNT}:file-system/fs-1"


@pytest.fixture(scope="module")
def whole() -> Graph:
    """A cluster with storage, nodes and what runs on them."""

    def build() -> None:
        eks = cluster()
        files = storage(clients=eks.efs_client_role_arns)
        api: list[pulumi.ProviderResource] = [eks.provider]
        nodes = capacity("nodes", pulumi.ResourceOptions(depends_on=[eks], providers=api))
        cluster_addons(
            "addons",
            pulumi.ResourceOptions(depends_on=[nodes], providers=api),
            file_system_arns=files.file_system_arns,
            efs_node_role_arn=eks.efs_client_role_arns.apply(lambda arns: arns[0]),
        )

    return registered(build)


def test_addons_are_created_after_their_nodes_and_deleted_before(whole: Graph) -> None:
    mine = [addon for addon in whole.of("Addon") if addon.name.startswith("addons-")]
    assert {addon.inputs["addonName"] for addon in mine} == {
        "coredns",
        "aws-efs-csi-driver",
        "metrics-server",
        "kube-state-metrics",
    }
    system = whole.resource("NodePool", "nodes-system-arm64")
    for addon in mine:
        assert whole.comes_before(system, addon)
        assert addon.inputs["addonVersion"] == releases().addons["1.35"][addon.inputs["addonName"]]
    # Daemons that come with a node are there before it.
    for addon in whole.of("Addon"):
        if addon not in mine:
            assert whole.comes_before(addon, system)


def test_core_dns_comes_after_karpenter_and_before_what_needs_it(whole: Graph) -> None:
    dns = whole.resource("Addon", "coredns")
    assert json.loads(dns.inputs["configurationValues"]) == {
        "computeType": "Fargate",
        "autoScaling": {"enabled": True, "minReplicas": 2, "maxReplicas": 10},
    }
    assert whole.comes_before(whole.resource("Release", "controller"), dns)
    for name in ("aws-efs-csi-driver", "metrics-server", "kube-state-metrics"):
        assert whole.comes_before(dns, whole.resource("Addon", name))


def test_only_the_labels_of_cost_allocation_are_exported(whole: Graph) -> None:
    values = json.loads(whole.resource("Addon", "kube-state-metrics").inputs["configurationValues"])
    assert values == {
        "metricLabelsAllowlist": [
            f"pods=[{','.join((USER, WORKSPACE, CLAIM, WARM))}]",
            f"persistentvolumes=[{USER}]",
            f"nodes=[{TYPE},{ZONE},karpenter.sh/capacity-type,sandbox.users.io/tier]",
        ]
    }


def test_the_drivers_two_accounts_have_a_role_each_and_storage_knows_the_one_that_mounts(whole: Graph) -> None:
    roles = {
        pod_identity_association["serviceAccount"]: pod_identity_association["roleArn"]
        for pod_identity_association in whole.resource("Addon", "aws-efs-csi-driver").inputs["podIdentityAssociations"]
    }
    assert set(roles) == {"efs-csi-controller-sa", "efs-csi-node-sa"}
    assert roles["efs-csi-node-sa"].endswith(":eks-efs-node")
    admitted = [
        statement["Principal"]["AWS"]
        for statement in whole.resource("FileSystemPolicy").policy()["Statement"]
        if statement["Effect"] == "Allow"
    ]
    assert admitted == [[roles["efs-csi-node-sa"]]]
    for name, account in (("efs-controller", "efs-csi-controller-sa"), ("efs-node", "efs-csi-node-sa")):
        (trust,) = whole.resource("Role", name).policy("assumeRolePolicy")["Statement"]
        condition = trust["Condition"]["StringEquals"]
        assert condition["aws:RequestTag/kubernetes-service-account"] == account
        assert condition["aws:RequestTag/kubernetes-namespace"] == "kube-system"


def test_the_driver_makes_access_points_in_its_file_systems_and_deletes_only_its_own() -> None:
    graph = registered(cluster_addons)
    statements = {statement["Sid"]: statement for statement in graph.resource("RolePolicy").policy()["Statement"]}
    assert statements["Make"]["Resource"] == [FILES]
    assert statements["Make"]["Condition"] == {"StringEquals": {"aws:RequestTag/efs.csi.aws.com/cluster": "true"}}
    assert statements["DeleteItsOwn"]["Condition"] == {
        "StringEquals": {"aws:ResourceTag/efs.csi.aws.com/cluster": "true"}
    }
    actions = json.dumps(statements)
    assert "ClientMount" not in actions
    assert "DeleteFileSystem" not in actions
    assert "*" not in {action for statement in statements.values() for action in statement["Action"]}


def test_namespaces_with_pods_on_nodes_let_their_own_work_through_first(whole: Graph) -> None:
    passages = {policy.inputs["metadata"]["namespace"]: policy for policy in whole.of("NetworkPolicy")}
    for addon, namespace in (
        ("aws-efs-csi-driver", "kube-system"),
        ("metrics-server", "kube-system"),
        ("kube-state-metrics", "kube-state-metrics"),
    ):
        passage = passages[namespace]
        assert whole.comes_before(passage, whole.resource("Addon", addon))
        assert passage.inputs["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert passage.inputs["spec"]["podSelector"] == {}


def system_policy(*, adopted: bool) -> dict[str, Any]:
    graph = registered(lambda: cluster_addons(sections=EXISTING if adopted else {}))
    (spec,) = [
        policy.inputs["spec"]
        for policy in graph.of("NetworkPolicy")
        if policy.inputs["metadata"]["namespace"] == "kube-system"
    ]
    return spec


def test_core_dns_on_nodes_serves_names_under_the_policy_of_kube_system() -> None:
    (rule,) = system_policy(adopted=False)["ingress"]
    assert "from" not in rule
    assert [row for row in rule["ports"] if row["port"] == 53] == [port.rule() for port in DNS]


def test_core_dns_of_an_adopted_cluster_is_under_no_policy_of_the_environment() -> None:
    selector = system_policy(adopted=True)["podSelector"]
    # Pods of CoreDNS have the label k8s-app only.
    assert selector == {
        "matchExpressions": [
            {"key": "app.kubernetes.io/name", "operator": "In", "values": ["aws-efs-csi-driver", "metrics-server"]}
        ]
    }


def test_the_metadata_address_is_no_part_of_any_work() -> None:
    spec = network_policy_spec((Ports(8080),), (*API, *DNS), identities=True)
    out: list[dict[str, Any]] = spec["egress"]
    assert out[0]["to"] == [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}}]
    assert out[1] == {
        "to": [{"ipBlock": {"cidr": "169.254.170.23/32"}}],
        "ports": [{"protocol": "TCP", "port": 80}],
    }
    assert spec["ingress"] == [{"ports": [{"protocol": "TCP", "port": 8080}]}]
    assert network_policy_spec((Ports(10250, 10251),), ())["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": 10250, "endPort": 10251}]}
    ]


def test_nothing_at_all_may_be_somebodys_work() -> None:
    assert network_policy_spec((), ()) == {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [],
        "egress": [],
    }
