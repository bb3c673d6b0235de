"""The capacity's graph: what Karpenter may do, what it hears, and the order in which it all comes and goes."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import Any

import pulumi
import pytest

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components.capacity.headroom import headroom_deployment_spec
from agentenv.components.capacity.karpenter_iam import controller_policies, queue_policy
from agentenv.core.iam.evaluation import grants, request_keys
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.nodes.node_pools import Demand
from agentenv.core.nodes.tiers import wall_of
from agentenv.core.pinned_versions import releases
from tests.fast.components.graph import ACCOUNT, REGION, Graph, RegisteredResource, registered
from tests.fast.components.node_shapes import capacity
from tests.fast.components.shapes import cluster
from tests.fast.config.stack_samples import settings

PLACE = AwsContext("aws", "amazonaws.com", REGION, ACCOUNT)
NODE_ROLE = f"arn:aws:iam::{ACCOUNT}:role/dev-nodes-node"
POLICIES = controller_policies(PLACE, "agents", NODE_ROLE, f"arn:aws:sqs:{REGION}:{ACCOUNT}:q")
BOTH = [
    Demand("standard", "kata", "both"),
    Demand("untrusted", "kata", "on-demand"),
    Demand("untrusted", "nitro", "on-demand"),
]
HEADROOM = {"pods": 3, "cpu": "500m", "memory": "1Gi"}


def build_graph(**settings: Any) -> Graph:
    return registered(lambda: capacity(**settings))


@pytest.fixture(scope="module")
def whole() -> Graph:
    """Capacity on a cluster, with everything that it may have."""

    def build() -> None:
        eks = cluster()
        opts = pulumi.ResourceOptions(depends_on=[eks], providers=[eks.provider])
        capacity("nodes", opts, demands=BOTH, headroom=HEADROOM)

    return registered(build)


def allowed(action: str, resource: str, context: dict[str, str]) -> bool:
    """Return whether the controller's six policies allow an action, by the conditions that they use."""
    return any(
        action in statement["Action"]
        and any(fnmatchcase(resource, pattern) for pattern in statement["Resource"])
        and all(holds(kind, expected, context) for kind, expected in statement.get("Condition", {}).items())
        for policy in POLICIES.values()
        for statement in policy["Statement"]
    )


def holds(kind: str, expected: dict[str, Any], context: dict[str, str]) -> bool:
    for key, values in expected.items():
        options = values if isinstance(values, list) else [values]
        found = context.get(key)
        if kind == "StringEquals" and found not in options:
            return False
        if kind == "StringLike" and (found is None or not any(fnmatchcase(found, option) for option in options)):
            return False
        if kind == "StringEqualsIfExists" and found is not None and found not in options:
            return False
        if kind == "ForAllValues:StringEquals" and found is not None and not set(found.split(",")) <= set(options):
            return False
    return True


OURS = {"aws:ResourceTag/kubernetes.io/cluster/agents": "owned", "aws:ResourceTag/karpenter.sh/nodepool": "standard"}
REQUESTED = {
    "aws:RequestTag/kubernetes.io/cluster/agents": "owned",
    "aws:RequestTag/eks:eks-cluster-name": "agents",
    "aws:RequestTag/karpenter.sh/nodepool": "standard",
}
INSTANCE = f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/i-1"
PROFILE = f"arn:aws:iam::{ACCOUNT}:instance-profile/p"


@pytest.mark.parametrize("action", ["ec2:TerminateInstances"])
def test_only_nodes_of_a_pool_of_this_cluster_are_ended(action: str) -> None:
    assert allowed(action, INSTANCE, OURS)
    assert not allowed(action, INSTANCE, {})
    assert not allowed(action, INSTANCE, {"aws:ResourceTag/kubernetes.io/cluster/agents": "owned"})
    assert not allowed(action, INSTANCE, {**OURS, "aws:ResourceTag/kubernetes.io/cluster/agents": "shared"})
    assert not allowed(
        action,
        INSTANCE,
        {"aws:ResourceTag/kubernetes.io/cluster/other": "owned", "aws:ResourceTag/karpenter.sh/nodepool": "standard"},
    )


@pytest.mark.parametrize("action", ["ec2:RunInstances", "ec2:CreateFleet"])
def test_nodes_are_launched_only_with_the_marks_of_this_cluster_and_a_pool(action: str) -> None:
    assert allowed(action, INSTANCE, REQUESTED)
    for missing in REQUESTED:
        assert not allowed(action, INSTANCE, {key: value for key, value in REQUESTED.items() if key != missing})
    subnet = f"arn:aws:ec2:{REGION}:{ACCOUNT}:subnet/subnet-1"
    assert allowed(action, subnet, {"aws:ResourceTag/karpenter.sh/discovery": "agents"})
    assert not allowed(action, subnet, {"aws:ResourceTag/karpenter.sh/discovery": "other"})
    assert allowed(action, f"arn:aws:ec2:{REGION}::image/ami-1", {})
    assert not allowed(action, INSTANCE.replace(REGION, "us-west-2"), REQUESTED)


def test_tags_are_set_at_creation_and_nodes_are_named() -> None:
    making = {**REQUESTED, "ec2:CreateAction": "RunInstances"}
    assert allowed("ec2:CreateTags", INSTANCE, making)
    assert not allowed("ec2:CreateTags", INSTANCE, REQUESTED | {"aws:TagKeys": "karpenter.sh/nodepool"})
    assert allowed("ec2:CreateTags", INSTANCE, {**OURS, "aws:TagKeys": "Name,karpenter.sh/nodeclaim"})
    assert not allowed("ec2:CreateTags", INSTANCE, {**OURS, "aws:TagKeys": "Name,owner"})


def test_only_the_node_role_is_passed() -> None:
    passed = {"iam:PassedToService": "ec2.amazonaws.com"}
    assert allowed("iam:PassRole", NODE_ROLE, passed)
    assert not allowed("iam:PassRole", NODE_ROLE, {"iam:PassedToService": "lambda.amazonaws.com"})
    assert not allowed("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/admin", passed)
    ours = {
        "aws:ResourceTag/kubernetes.io/cluster/agents": "owned",
        "aws:ResourceTag/topology.kubernetes.io/region": REGION,
        "aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "standard-spot",
    }
    assert allowed("iam:AddRoleToInstanceProfile", PROFILE, ours)
    assert not allowed("iam:AddRoleToInstanceProfile", PROFILE, {})
    assert not allowed("iam:CreateInstanceProfile", PROFILE, {})


def test_no_service_linked_role_but_that_of_spot_is_created() -> None:
    def may_create(service: str, role: str) -> bool:
        arn = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/{service}/{role}"
        keys = request_keys(**{"iam:AWSServiceName": service})
        return grants(map(iam_policies.to_json, POLICIES.values()), "iam:CreateServiceLinkedRole", arn, keys)

    assert may_create("spot.amazonaws.com", "AWSServiceRoleForEC2Spot")
    assert not may_create("eks.amazonaws.com", "AWSServiceRoleForAmazonEKS")
    assert not may_create("spot.amazonaws.com", "AWSServiceRoleForAmazonEKS")


def test_other_clusters_and_queues_are_none_of_its_business() -> None:
    assert allowed("eks:DescribeCluster", f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/agents", {})
    assert not allowed("eks:DescribeCluster", f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/other", {})
    assert not allowed("sqs:ReceiveMessage", f"arn:aws:sqs:{REGION}:{ACCOUNT}:other", {})
    assert allowed("ec2:DescribeSubnets", "*", {"aws:RequestedRegion": REGION})
    assert not allowed("ec2:DescribeSubnets", "*", {"aws:RequestedRegion": "us-west-2"})
    # The service knows no resources of its own: what is managed is told in the request.
    managed = "arc-zonal-shift:ResourceIdentifier"
    ours, other = (f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{name}" for name in ("agents", "other"))
    assert allowed("arc-zonal-shift:GetManagedResource", "*", {managed: ours})
    assert not allowed("arc-zonal-shift:GetManagedResource", "*", {managed: other})


def test_nothing_is_allowed_wholesale_and_all_of_it_fits_into_a_role() -> None:
    assert len(POLICIES) == 6
    for policy in POLICIES.values():
        for statement in policy["Statement"]:
            assert not [action for action in statement["Action"] if "*" in action]
            if statement["Resource"] == ["*"]:
                # Of these the price list alone is bound to nothing, neither a region nor a cluster.
                assert all(
                    ":Describe" in action or action in {"pricing:GetProducts", "arc-zonal-shift:GetManagedResource"}
                    for action in statement["Action"]
                )
                assert "Condition" in statement or statement["Action"] == ["pricing:GetProducts"]
    # What a role's own policies may have together.
    assert sum(len(iam_policies.to_json(policy)) for policy in POLICIES.values()) < 10_240


def test_the_controllers_role_has_the_six_and_is_for_its_own_tokens(whole: Graph) -> None:
    attached = {
        policy.name: policy for policy in whole.of("RolePolicy") if policy.inputs["role"] == "dev-nodes-controller"
    }
    assert {policy.inputs["name"] for policy in attached.values()} == set(POLICIES)
    (trust,) = whole.resource("Role", "nodes-controller").policy("assumeRolePolicy")["Statement"]
    issuer = f"oidc.eks.{REGION}.amazonaws.com/id/ABC"
    assert trust["Condition"] == {
        "StringEquals": {
            f"{issuer}:aud": "sts.amazonaws.com",
            f"{issuer}:sub": "system:serviceaccount:karpenter:karpenter",
        }
    }


def test_a_node_may_join_pull_and_be_looked_after_and_no_more(whole: Graph) -> None:
    role = whole.resource("Role", "nodes-node")
    (trust,) = role.policy("assumeRolePolicy")["Statement"]
    assert trust["Principal"] == {"Service": "ec2.amazonaws.com"}
    policies = {
        attachment.inputs["policyArn"].rsplit("/", 1)[-1]
        for attachment in whole.of("RolePolicyAttachment")
        if attachment.inputs["role"] == role.inputs["name"]
    }
    assert policies == {
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
    }
    entry = whole.resource("AccessEntry", "nodes-node")
    assert entry.inputs["type"] == "EC2_LINUX"
    assert not {"kubernetesGroups", "userName"} & set(entry.inputs)


def test_the_queue_is_encrypted_short_lived_and_filled_by_five_rules_only(whole: Graph) -> None:
    queue = whole.resource("Queue").inputs
    assert (queue["messageRetentionSeconds"], queue["sqsManagedSseEnabled"]) == (300, True)
    rules = {rule.name: json.loads(rule.inputs["eventPattern"]) for rule in whole.of("EventRule")}
    assert sorted(pattern["detail-type"][0] for pattern in rules.values()) == [
        "AWS Health Event",
        "EC2 Capacity Reservation Instance Interruption Warning",
        "EC2 Instance Rebalance Recommendation",
        "EC2 Instance State-change Notification",
        "EC2 Spot Instance Interruption Warning",
    ]
    assert {rule.inputs["state"] for rule in whole.of("EventRule")} == {"ENABLED"}
    assert len(whole.of("EventTarget")) == 5
    ours, plain = whole.resource("QueuePolicy").policy()["Statement"]
    assert len(ours["Condition"]["ArnEquals"]["aws:SourceArn"]) == 5
    assert (plain["Effect"], plain["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    assert "*" not in iam_policies.to_json({"of": queue_policy("q", ["r"])["Statement"][0]["Condition"]})


def test_definitions_come_before_the_controller_from_the_pinned_charts(whole: Graph) -> None:
    definitions, karpenter = whole.resource("Release", "definitions"), whole.resource("Release", "controller")
    for release, word in ((definitions, "karpenter-crd"), (karpenter, "karpenter")):
        source = releases().charts[word]
        assert (release.inputs["chart"], release.inputs["version"]) == (source.address, source.version)
        assert release.inputs["namespace"] == "karpenter"
    assert whole.comes_before(definitions, karpenter)
    values = karpenter.inputs["values"]
    assert values["dnsPolicy"] == "Default"
    # The webhook of a Fargate profile sets both, but not in the profile's first moments.
    assert values["schedulerName"] == "fargate-scheduler"
    assert values["podLabels"] == {"eks.amazonaws.com/fargate-profile": "controllers"}
    assert values["settings"] == {
        "clusterName": "dev-agents",
        "clusterEndpoint": "https://dev-agents.example",
        "interruptionQueue": "dev-nodes-interruptions",
        "isolatedVPC": False,
        "eksControlPlane": True,
        # Else a wish to be spread buys a node in every zone.
        "preferencePolicy": "Ignore",
        "featureGates": {"nodeRepair": True},
    }
    assert values["serviceAccount"]["annotations"]["eks.amazonaws.com/role-arn"].endswith(":nodes-controller")


def test_the_controllers_size_and_replicas_are_settings(whole: Graph) -> None:
    usual = whole.resource("Release", "controller").inputs["values"]
    assert (usual["replicas"], usual["controller"]["resources"]["requests"]) == (2, {"cpu": "500m", "memory": "768Mi"})
    small = build_graph(controller={"replicas": 1, "cpu": "250m"})
    values = small.resource("Release", "controller").inputs["values"]
    assert values["replicas"] == 1
    assert values["controller"]["resources"] == {
        "requests": {"cpu": "250m", "memory": "768Mi"},
        "limits": {"cpu": "250m", "memory": "768Mi"},
    }


def of_kind(graph: Graph, kind: str) -> list[RegisteredResource]:
    return [
        resource
        for resource in graph.resources
        if resource.inputs.get("kind") == kind and resource.type.startswith("kubernetes:karpenter")
    ]


def test_what_nodes_need_outlives_them(whole: Graph) -> None:
    """A destroy is this order the other way round: each thing goes only after what is made later."""
    pools, classes = of_kind(whole, "NodePool"), of_kind(whole, "EC2NodeClass")
    karpenter, definitions = whole.resource("Release", "controller"), whole.resource("Release", "definitions")
    assert len(pools) == 8
    assert len(classes) == 5
    for pool in pools:
        (kind,) = [class_ for class_ in classes if class_.inputs["metadata"]["name"] == node_class(pool)]
        assert whole.comes_before(kind, pool)
    needed = [
        *[policy for policy in whole.of("RolePolicy") if policy.inputs["role"] == "dev-nodes-controller"],
        *[
            attachment
            for attachment in whole.of("RolePolicyAttachment")
            if attachment.inputs["role"] == "dev-nodes-node"
        ],
        whole.resource("AccessEntry", "nodes-node"),
        whole.resource("Key", "volumes"),
        *whole.of("EventTarget"),
        definitions,
        karpenter,
    ]
    for kind in classes:
        for resource in needed:
            assert whole.comes_before(resource, kind), resource.name
    for profile in whole.of("FargateProfile"):
        assert whole.comes_before(profile, definitions), profile.name
    for addon in whole.of("Addon"):
        assert whole.comes_before(addon, karpenter), addon.name


def node_class(pool: RegisteredResource) -> str:
    return str(pool.inputs["spec"]["template"]["spec"]["nodeClassRef"]["name"])


def test_pool_deletion_waits_for_its_nodes_until_a_timeout(whole: Graph) -> None:
    for pool in of_kind(whole, "NodePool"):
        assert pool.inputs["metadata"]["annotations"] == {
            "pulumi.com/deletionPropagationPolicy": "foreground",
            "pulumi.com/waitFor": "condition=Ready",
        }
        # Four hours are what its nodes may take to drain.
        assert pool.inputs["spec"]["template"]["spec"]["terminationGracePeriod"] == "4h"
        assert pool.deletion_timeout["delete"] == "270m"
    assert all(kind.deletion_timeout["delete"] == "270m" for kind in of_kind(whole, "EC2NodeClass"))
    hurried = build_graph(terminationGrace="10m")
    assert {pool.deletion_timeout["delete"] for pool in of_kind(hurried, "NodePool")} == {"40m"}


def test_classes_of_nodes_have_our_key_role_and_tags(whole: Graph) -> None:
    for kind in of_kind(whole, "EC2NodeClass"):
        spec = kind.inputs["spec"]
        assert spec["role"] == "dev-nodes-node"
        assert spec["blockDeviceMappings"][0]["ebs"]["kmsKeyID"].endswith(":nodes-volumes")
        assert spec["tags"]["sandbox-nodes"] == kind.inputs["metadata"]["name"]
        assert {"environment", "owner", "cost-center", "component"} <= set(spec["tags"])
        assert spec["subnetSelectorTerms"] == [{"tags": {"karpenter.sh/discovery": "dev-agents"}}]
        assert "podPidsLimit" in spec["userData"]
    started = {
        kind.inputs["metadata"]["name"]
        for kind in of_kind(whole, "EC2NodeClass")
        if "shellscript" in kind.inputs["spec"]["userData"]
    }
    assert started == {
        "standard-spot",
        "standard-on-demand",
        "untrusted-kata-on-demand",
        "untrusted-nitro-on-demand",
    }


def test_instance_profile_is_created_where_iam_is_unreachable_and_deleted_after_node_classes(whole: Graph) -> None:
    assert whole.of("InstanceProfile") == []
    graph = build_graph(isolated=True)
    profile = graph.resource("InstanceProfile", "nodes-node")
    assert profile.inputs["role"] == "dev-nodes-node"
    classes = of_kind(graph, "EC2NodeClass")
    assert classes
    for kind in classes:
        assert kind.inputs["spec"]["instanceProfile"] == profile.inputs["name"]
        assert "role" not in kind.inputs["spec"]
        assert graph.comes_before(profile, kind)
    assert graph.resource("Release", "controller").inputs["values"]["settings"]["isolatedVPC"] is True


def test_copies_are_taken_instead_of_what_the_internet_has() -> None:
    registry, files = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/mirror", "https://copies.s3.eu-west-1.amazonaws.com"
    graph = build_graph(
        mirrors=Mirrors(registry, files),
        headroom=HEADROOM,
        demands=[*BOTH[:2], Demand("verified", "kata", "spot", gpu=True)],
    )
    images = [
        container["image"]
        for kind in ("Deployment", "DaemonSet")
        for resource in graph.of(kind)
        for container in resource.inputs["spec"]["template"]["spec"]["containers"]
    ]
    images.append(graph.resource("Release", "controller").inputs["values"]["controller"]["image"]["repository"])
    assert len(images) == 5
    assert all(image.startswith(f"{registry}/") for image in images)
    gvisor = f"gvisor/{releases().runtimes['gvisor'].version}/$machine/gvisor.tar.zstd"
    assert first_addresses(graph) == {f"{files}/{gvisor}", f"{files}/kata/3.32.0/kata-static-3.32.0-$package.tar.zst"}


@pytest.mark.parametrize("isolated", [False, True])
def test_nodes_try_the_bucket_of_the_stack_first_and_alone_without_nat(isolated: bool) -> None:
    graph = build_graph(runtime_bucket=True, isolated=isolated)
    path = f"gvisor/{releases().runtimes['gvisor'].version}/$machine/gvisor.tar.zstd"
    assert first_addresses(graph) == {f"https://dev-agents-runtimes-{ACCOUNT}.s3.{REGION}.amazonaws.com/{path}"}
    scripts = [kind.inputs["spec"]["userData"] for kind in of_kind(graph, "EC2NodeClass")]
    assert any("https://storage.googleapis.com/" in text for text in scripts) is not isolated


def first_addresses(graph: Graph) -> set[str]:
    """Return the addresses that nodes try first."""
    scripts = [kind.inputs["spec"].get("userData", "") for kind in of_kind(graph, "EC2NodeClass")]
    return {line.split()[3].strip('"') for text in scripts for line in text.splitlines() if line.startswith("fetch ")}


def test_gpu_plugin_is_installed_before_gpu_nodes(whole: Graph) -> None:
    assert whole.of("DaemonSet") == []
    graph = build_graph(demands=[Demand("verified", "kata", "on-demand", gpu=True)])
    plugin = graph.resource("DaemonSet")
    spec = plugin.inputs["spec"]["template"]["spec"]
    (pool,) = [pool for pool in of_kind(graph, "NodePool") if "gpu" in pool.inputs["metadata"]["name"]]
    template = pool.inputs["spec"]["template"]
    assert spec["nodeSelector"].items() <= template["metadata"]["labels"].items()
    assert {row["key"] for row in template["spec"]["taints"]} == {row["key"] for row in spec["tolerations"]}
    assert {row["operator"] for row in spec["tolerations"]} == {"Exists"}
    assert spec["volumes"] == [
        {"name": "sockets", "hostPath": {"path": "/var/lib/kubelet/device-plugins", "type": "Directory"}}
    ]
    assert spec["containers"][0]["image"] == releases().images["nvidia-device-plugin"]
    space = graph.resource("Namespace", "nodes-gpu")
    # No lesser standard lets a pod have a directory of its node.
    assert space.inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    closed = graph.resource("NetworkPolicy", "gpu-own-work")
    assert closed.inputs["metadata"]["namespace"] == plugin.inputs["metadata"]["namespace"]
    assert closed.inputs["spec"]["policyTypes"] == ["Ingress", "Egress"]
    for kind in of_kind(graph, "EC2NodeClass"):
        assert graph.comes_before(plugin, kind)


def test_the_volumes_key_is_used_through_ec2_only(whole: Graph) -> None:
    _, use = whole.resource("Key", "volumes").policy()["Statement"]
    assert use["Condition"]["StringEquals"]["kms:ViaService"] == f"ec2.{REGION}.amazonaws.com"


def test_there_is_a_runtime_class_for_each_wall_that_some_pool_has(whole: Graph) -> None:
    runtime_classes = {
        runtime_class.inputs["metadata"]["name"]: runtime_class.inputs for runtime_class in whole.of("RuntimeClass")
    }
    assert set(runtime_classes) == {"gvisor", "kata", "isolated-sandbox"}
    assert runtime_classes["gvisor"]["handler"] == "runsc"
    assert runtime_classes["gvisor"]["scheduling"] == {
        "nodeSelector": {"sandbox.users.io/tier": "standard", "sandbox.users.io/wall": "gvisor"},
        "tolerations": [
            {"key": "sandbox.users.io/tier", "value": "standard", "effect": "NoSchedule", "operator": "Equal"}
        ],
    }
    assert runtime_classes["kata"]["overhead"]["podFixed"] == {"cpu": "250m", "memory": "352Mi"}
    assert build_graph(demands=[Demand("verified", "kata", "spot")]).of("RuntimeClass") == []


def test_room_is_held_on_each_kind_of_node_by_pods_that_give_way(whole: Graph) -> None:
    priority = whole.resource("PriorityClass").inputs
    assert priority["value"] < 0
    assert priority["preemptionPolicy"] == "Never"
    assert priority["globalDefault"] is False
    holding = {deployment.inputs["metadata"]["name"]: deployment for deployment in whole.of("Deployment")}
    assert set(holding) == {kind.inputs["metadata"]["name"] for kind in of_kind(whole, "EC2NodeClass")} - {"system"}
    for deployment in holding.values():
        assert deployment.inputs["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
        assert deployment.inputs["spec"]["replicas"] == 3
        for pool in of_kind(whole, "NodePool"):
            # Room that is held would keep the pool's nodes, so it is given up first.
            assert whole.comes_before(pool, deployment)
    closed = whole.resource("NetworkPolicy", "headroom-own-work").inputs["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [], "egress": []}


def test_holders_are_what_the_restricted_standard_allows() -> None:
    headroom = settings({"capacity": {"headroom": {"pods": 2, "cpu": "1", "memory": "2Gi"}}}).capacity.headroom
    deployment = headroom_deployment_spec("standard-spot", wall_of("standard"), "spot", headroom, "pause")
    spec = deployment["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "2Gi"}
    assert spec["automountServiceAccountToken"] is False
    assert "runtimeClassName" not in spec


def test_without_headroom_there_is_nothing_that_holds_room() -> None:
    graph = build_graph()
    assert graph.of("Deployment") == graph.of("PriorityClass") == []


def test_another_demand_leaves_what_exists_as_it_was() -> None:
    fewer, more = (build_graph(demands=BOTH[:count]) for count in (1, 3))
    before = {resource.key: resource.inputs for resource in fewer.resources}
    after = {resource.key: resource.inputs for resource in more.resources}
    assert {key: after[key] for key in before} == before
    assert len(after) > len(before)


def test_namespaces_of_the_platform_take_only_restricted_pods(whole: Graph) -> None:
    spaces = [namespace for namespace in whole.of("Namespace") if namespace.name.startswith("nodes-")]
    assert {space.inputs["metadata"]["name"] for space in spaces} == {"karpenter", "headroom"}
    for space in spaces:
        assert space.inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
