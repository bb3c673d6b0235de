"""Cases outside the recordings: refusals, previews, secrets, providers, and options of the components."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import provider_pb2

from agentenv.core.capabilities.unknown_values import UNKNOWN_STRING
from agentenv.rehearsal.providers.eks import readiness
from agentenv.rehearsal.providers.eks.servicer import Servicer
from tests.fast.rehearsal.providers.eks.conftest import ARN, COMMON, SUBNETS, TAMED
from tests.fast.rehearsal.providers.eks.monitor import (
    ENDPOINT,
    OUTPUT,
    PREFIX,
    SECRET,
    SIGNATURE,
    Aborted,
    Bench,
    Monitor,
    known,
    of,
    reference,
    unknown,
)

CLUSTER = "eks:index:Cluster"
EKS = "aws:eks/cluster:Cluster::c-eksCluster"
ADDON = {
    "cluster": reference("eks:index:Cluster::c"),
    "addonName": "metrics-server",
    "addonVersion": "v0.8.0-eksbuild.1",
}


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"authenticationMode": "CONFIG_MAP"}, "authenticationMode is CONFIG_MAP; the stand-in supports API"),
        ({"authenticationMode": None}, "the default"),
        ({"skipDefaultNodeGroup": False}, "skipDefaultNodeGroup is not true; the stand-in has no node groups"),
        ({"createOidcProvider": True}, "createOidcProvider reads the issuer"),
        ({"vpcId": None}, "vpcId is not set"),
        ({"subnetIds": ["s0"]}, "subnetIds is set beside publicSubnetIds or privateSubnetIds"),
        ({"endpointPublicAccess": False}, "publicAccessCidrs is set, and endpointPublicAccess is false"),
        ({"instanceType": "m8g.large"}, "instanceType is not supported by the stand-in: node groups are not rehearsed"),
        ({"autoMode": {"enabled": True}}, "autoMode is not supported by the stand-in"),
        ({"proxy": "http://proxy"}, "proxy is not supported by the stand-in"),
        (
            {"endpointPublicAcess": True},
            "endpointPublicAcess is not known; supported are accessEntries, authenticationMode",
        ),
        ({"accessEntries": {"a": {"principalArn": ARN, "group": "x"}}}, "accessEntries.a.group is not known"),
        (
            {"accessEntries": {"a": {"principalArn": ARN, "accessPolicies": {"b": {"policy": "x"}}}}},
            "accessEntries.a.accessPolicies.b.policy is not known",
        ),
        ({"fargate": {"selector": []}}, "fargate.selector is not known"),
        (
            {"vpcCniOptions": {"securityContextPrivileged": True}},
            "vpcCniOptions.securityContextPrivileged is not supported",
        ),
        ({"useDefaultVpcCni": False, "vpcCniOptions": {"customNetworkConfig": True}}, "set cniCustomNetworkCfg"),
        (
            {"useDefaultVpcCni": False, "vpcCniOptions": {"externalSnat": True, "cniExternalSnat": True}},
            "externalSnat and cniExternalSnat are both set",
        ),
        ({"serviceRole": unknown("aws:iam/role:Role::r")}, "serviceRole is not a resource, or not known yet"),
    ],
)
def test_unmapped_input_is_refused_by_name(
    bench: Bench, health_requests: list[str], changed: dict[str, Any], words: str
) -> None:
    args = {key: value for key, value in {**TAMED, **changed}.items() if value is not None}
    with pytest.raises(Aborted) as refused:
        bench.construct(CLUSTER, "c", args)
    assert words in str(refused.value)
    assert "Cluster c" in str(refused.value) or "vpcCniOptions" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_all_mistakes_are_reported_at_once(bench: Bench) -> None:
    with pytest.raises(Aborted) as refused:
        bench.construct(CLUSTER, "c", {**TAMED, "gpu": True, "sise": 3, "minSize": 1})
    message = str(refused.value).removeprefix("eks:index:Cluster c: ").split("; ")
    mistakes = [part.split(" ")[0] for part in message if " is not " in part]
    assert mistakes == ["gpu", "minSize", "sise"]
    assert not bench.monitor.registered


@pytest.mark.parametrize(
    "kind", ["NodeGroup", "NodeGroupV2", "ManagedNodeGroup", "ClusterCreationRoleProvider", "Nonsense"]
)
def test_components_that_are_not_simulated_are_reported(bench: Bench, kind: str) -> None:
    with pytest.raises(Aborted, match=f"eks:index:{kind} n: .*(not rehearsed|has eks:index:Addon)"):
        bench.construct(f"eks:index:{kind}", "n", {})


def test_an_addon_without_a_cluster_is_refused(bench: Bench) -> None:
    with pytest.raises(Aborted, match="eks:index:Addon ad: cluster is missing"):
        bench.construct("eks:index:Addon", "ad", {"addonName": "coredns"})


def test_failure_of_a_child_fails_the_component(bench: Bench, monitor: Monitor, health_requests: list[str]) -> None:
    del monitor.answers["aws:index/getPartition:getPartition"]
    with pytest.raises(Aborted) as failed:
        bench.construct(CLUSTER, "c", TAMED)
    assert str(failed.value).startswith("building eks:index:Cluster c: ")
    assert "getPartition" in str(failed.value)
    assert "Traceback" not in str(failed.value)
    assert 'File "' not in str(failed.value)


# -- what comes in, and what it becomes -------------------------------------------------------------------------------


def test_preview_registers_the_same_resources_with_unknown_outputs(bench: Bench, monitor: Monitor) -> None:
    monitor.dry = True
    state = bench.construct(CLUSTER, "c", {**TAMED, "encryptionConfigKeyArn": unknown("aws:kms/key:Key::k")})
    assert [name for _, name, _ in monitor.created()].count("c-eksCluster") == 1
    child = monitor.resource(EKS)
    assert child.inputs["encryptionConfig"]["provider"]["keyArn"] == UNKNOWN_STRING
    assert "aws:kms/key:Key::k" in child.depends
    for name in ("kubeconfig", "kubeconfigJson", "clusterSecurityGroupId", "oidcProviderUrl"):
        assert known(state[name]) == UNKNOWN_STRING, name
    assert known(state["core"]["vpcId"]) == "v"


def test_preview_does_not_poll_health(bench: Bench, monitor: Monitor, health_requests: list[str]) -> None:
    monitor.dry = True
    bench.construct(CLUSTER, "c", TAMED)
    assert health_requests == []


def test_private_endpoint_is_not_polled(bench: Bench, health_requests: list[str]) -> None:
    args = {key: value for key, value in TAMED.items() if key != "publicAccessCidrs"}
    state = bench.construct(CLUSTER, "c", {**args, "endpointPublicAccess": False})
    assert health_requests == []
    assert state["kubeconfig"]["clusters"][0]["cluster"]["server"] == ENDPOINT


def test_kubeconfig_is_output_once_the_api_is_healthy(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    async def healthy(endpoint: str, report: Any) -> bool:
        order.append(f"asked, {len([u for u in bench.monitor.registered if 'eks-k8s' in u])} providers")
        return True

    monkeypatch.setattr(readiness, "wait_until_healthy", healthy)
    bench.construct(CLUSTER, "c", TAMED)
    assert order == ["asked, 0 providers"]
    assert json.loads(bench.monitor.resource("::c-eks-k8s").inputs["kubeconfig"])["kind"] == "Config"


def test_kubeconfig_is_output_even_if_the_api_stays_unhealthy(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def healthy(endpoint: str, report: Any) -> bool:
        report("Waiting")
        return False

    monkeypatch.setattr(readiness, "wait_until_healthy", healthy)
    assert bench.construct(CLUSTER, "c", TAMED)["kubeconfigJson"]


def test_a_run_that_is_cancelled_does_not_wait_for_its_cluster(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "is_healthy", lambda _: bench.servicer.stop() is not None)
    with pytest.raises(Aborted, match="eks:index:Cluster c: it was cancelled before it was complete"):
        bench.construct(CLUSTER, "c", TAMED)


def test_secrets_stay_secret(bench: Bench, health_requests: list[str]) -> None:
    hidden = {SIGNATURE: OUTPUT, "value": "the name", "secret": True, "dependencies": []}
    state = bench.construct(CLUSTER, "c", {**TAMED, "name": hidden})
    name = bench.monitor.resource(EKS).sent["name"]
    assert name[SIGNATURE] == SECRET or name["secret"] is True
    assert known(name) == "the name"
    assert state["kubeconfigJson"][SIGNATURE] == SECRET, "the name stands in it"
    assert state["core"]["vpcId"] == "v", "only what is secret is hidden"


def test_creator_admin_permissions_are_not_refreshed(bench: Bench, health_requests: list[str]) -> None:
    bench.construct(CLUSTER, "c", TAMED)
    assert bench.monitor.resource(EKS).ignoring == (
        "accessConfig.bootstrapClusterCreatorAdminPermissions",
        "bootstrapSelfManagedAddons",
    )


def test_children_are_of_the_programs_packages(bench: Bench, health_requests: list[str]) -> None:
    bench.construct(CLUSTER, "c", {**COMMON, "fargate": True})
    assert {resource.version for resource in bench.monitor.registered.values() if resource.custom} == {"7.51.1", ""}
    assert bench.monitor.resource("::c-eks-k8s").version == ""


def test_children_inherit_the_provider_that_the_program_gives(bench: Bench, health_requests: list[str]) -> None:
    bench.monitor.has("pulumi:providers:aws::ours")
    ours = f"{PREFIX}pulumi:providers:aws::ours::ours"
    bench.construct(CLUSTER, "c", {**COMMON, "fargate": True}, providers={"aws": ours})
    child = {
        urn: resource.provider
        for urn, resource in bench.monitor.registered.items()
        if resource.custom and "$aws:" in urn
    }
    assert len(child) > 15
    assert set(child.values()) == {ours}
    assert set(bench.monitor.asked_of) == {ours}


def test_profiles_are_for_the_components_own_provider(
    bench: Bench, health_requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "ann")
    state = bench.construct(CLUSTER, "c", TAMED)
    assert "--profile" not in state["kubeconfigJson"]
    assert '"--profile","ann"' in bench.monitor.resource("::c-eks-k8s").inputs["kubeconfig"]
    monkeypatch.delenv("AWS_PROFILE")
    state = bench.construct(CLUSTER, "d", {**TAMED, "providerCredentialOpts": {"roleArn": of("r", ARN)}})
    assert f'"--role","{ARN}"' in state["kubeconfigJson"]


def test_groups_and_roles_of_the_programs_own_are_used(bench: Bench, health_requests: list[str]) -> None:
    monitor = bench.monitor
    bench.construct("eks:index:Cluster", "other", {**COMMON, "useDefaultVpcCni": True})
    group = "eks:index:Cluster$aws:ec2/securityGroup:SecurityGroup::other-eksClusterSecurityGroup"
    role = "eks:index:Cluster$eks:index:ServiceRole$aws:iam/role:Role::other-eksRole-role"
    args = {**COMMON, "clusterSecurityGroup": reference(group, "g"), "serviceRole": reference(role, "r")}
    state = bench.construct(CLUSTER, "c", args)
    child = monitor.resource(EKS)
    assert child.inputs["vpcConfig"]["securityGroupIds"] == ["other-eksClusterSecurityGroup"]
    assert child.inputs["roleArn"] == "arn:aws:x:us-east-1:123456789012:other-eksRole-role"
    assert {group, role} <= child.depends
    assert state["clusterSecurityGroupId"] == "other-eksClusterSecurityGroup"
    assert not [urn for urn in monitor.registered if urn.endswith(("::c-eksClusterSecurityGroup", "::c-eksRole"))]
    assert monitor.resource("::c-nodeSecurityGroup").inputs["tags"]["kubernetes.io/cluster/c-eksCluster"] == "owned"


def test_the_network_of_services_is_passed_on(bench: Bench, health_requests: list[str]) -> None:
    bench.construct(CLUSTER, "c", {**TAMED, "kubernetesServiceIpAddressRange": "10.9.0.0/16", "name": "seats"})
    child = bench.monitor.resource(EKS).inputs
    assert child["kubernetesNetworkConfig"] == {"ipFamily": "ipv4", "serviceIpv4Cidr": "10.9.0.0/16"}
    assert child["name"] == "seats"
    bench.construct(CLUSTER, "d", {**TAMED, "kubernetesServiceIpAddressRange": "10.9.0.0/16", "ipFamily": "ipv6"})
    assert bench.monitor.resource("::d-eksCluster").inputs["kubernetesNetworkConfig"] == {"ipFamily": "ipv6"}


# -- Fargate ----------------------------------------------------------------------------------------------------------


def test_fargate_uses_private_subnets(bench: Bench, monitor: Monitor, health_requests: list[str]) -> None:
    def table(args: dict[str, Any]) -> dict[str, Any]:
        if args.get("subnetId") == "s1":
            raise LookupError("no table of its own")
        out = args.get("subnetId") in {"s2", "s3"}
        local = {"cidrBlock": "10.0.0.0/16", "gatewayId": "local"}
        return {"routes": [local, *([{"cidrBlock": "0.0.0.0/0", "gatewayId": "igw-1"}] if out else [])]}

    monitor.answers["aws:ec2/getRouteTable:getRouteTable"] = table
    monitor.answers["aws:ec2/getSubnet:getSubnet"] = lambda _: {"vpcId": "v"}
    bench.construct(CLUSTER, "c", {**TAMED, "fargate": True})
    child = monitor.resource("::c-fargateProfile").inputs
    assert child["subnetIds"] == ["s0", "s1"]
    assert child["selectors"] == [{"namespace": "default"}, {"namespace": "kube-system"}]
    assert monitor.functions[-1]["args"] == {
        "vpcId": "v",
        "filters": [{"name": "association.main", "values": ["true"]}],
    }


@pytest.mark.parametrize(
    ("name", "profile"), [("c", "c-fargateProfile"), ("eks-a-b", "eks_a-bfargateProfile"), ("eks", "eksfargateProfile")]
)
def test_profile_names_avoid_the_reserved_prefix(
    bench: Bench, health_requests: list[str], name: str, profile: str
) -> None:
    args = {**TAMED, "fargate": {"podExecutionRoleArn": ARN, "subnetIds": [of(SUBNETS["s0"], "s0")]}}
    bench.construct(CLUSTER, name, args)
    child = bench.monitor.resource(f"::{profile}").inputs
    assert (child["podExecutionRoleArn"], child["subnetIds"]) == (ARN, ["s0"])


@pytest.mark.parametrize(
    ("options", "fargate", "configuration"),
    [
        ({}, True, '{"computeType":"Fargate"}'),
        ({"configurationValues": {"replicaCount": 2.0}}, True, '{"computeType":"Fargate","replicaCount":2}'),
        ({"configurationValues": {"replicaCount": 2.0}}, None, '{"replicaCount":2}'),
        ({"enabled": True, "version": "v1.2.3-eksbuild.4"}, None, None),
        ({"enabled": False}, True, "no add-on"),
        ({}, None, "no add-on"),
    ],
)
def test_coredns_is_installed_where_it_can_run(
    bench: Bench, health_requests: list[str], options: dict[str, Any], fargate: Any, configuration: str | None
) -> None:
    args = {**TAMED, "corednsAddonOptions": options, **({"fargate": fargate} if fargate else {})}
    bench.construct(CLUSTER, "c", args)
    found = [resource.inputs for urn, resource in bench.monitor.registered.items() if urn.endswith("::c-coredns")]
    if configuration == "no add-on":
        assert found == []
    else:
        assert [resource.get("configurationValues") for resource in found] == [configuration]
        assert found[0]["addonVersion"] == options.get("version", "v1.0.0-eksbuild.1")


# -- the other components ---------------------------------------------------------------------------------------------


def test_many_addons_are_built_at_once(bench: Bench, health_requests: list[str]) -> None:
    bench.construct(CLUSTER, "c", TAMED)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: bench.construct("eks:index:Addon", f"addon-{n}", ADDON), range(12)))
    child = [resource for urn, resource in bench.monitor.registered.items() if "$aws:eks/addon:Addon::addon-" in urn]
    assert len(child) == 12
    assert {resource.inputs["clusterName"] for resource in child} == {"c-eksCluster"}


def test_the_cni_takes_settings_by_their_names(bench: Bench, health_requests: list[str]) -> None:
    args = {
        "clusterName": "c",
        "clusterVersion": "1.35",
        "enablePrefixDelegation": True,
        "warmPrefixTarget": 1,
        "warmEniTarget": 0,
        "warmIpTarget": 0,
        "externalSnat": True,
        "enableNetworkPolicy": True,
        "configurationValues": {
            "enableNetworkPolicy": "false",
            "env": {"AWS_VPC_K8S_CNI_LOGLEVEL": "INFO"},
            "init": {"image": "x"},
        },
        "serviceAccountRoleArn": ARN,
    }
    bench.construct("eks:index:VpcCniAddon", "cni", args)
    child = bench.monitor.resource("VpcCniAddon$aws:eks/addon:Addon::cni").inputs
    assert child["addonVersion"] == "v1.0.0-eksbuild.1"
    assert child["serviceAccountRoleArn"] == ARN
    values = json.loads(child["configurationValues"])
    assert values["enableNetworkPolicy"] == "false", "what is said in the add-on's own words counts"
    assert values["init"] == {"image": "x", "env": {"DISABLE_TCP_EARLY_DEMUX": "false"}}
    expected = {
        "ENABLE_PREFIX_DELEGATION": "true",
        "WARM_PREFIX_TARGET": "1",
        "WARM_ENI_TARGET": "0",
        "AWS_VPC_K8S_CNI_EXTERNALSNAT": "true",
        "AWS_VPC_K8S_CNI_LOGLEVEL": "INFO",
    }
    assert expected.items() <= values["env"].items()
    assert "WARM_IP_TARGET" not in values["env"]


@pytest.mark.parametrize("missing", ["clusterName", "clusterVersion"])
def test_a_cni_without_a_cluster_or_a_version_is_refused(bench: Bench, missing: str) -> None:
    args = {"clusterName": "c", "clusterVersion": "1.35"}
    with pytest.raises(Aborted, match=missing):
        bench.construct("eks:index:VpcCniAddon", "cni", {k: v for k, v in args.items() if k != missing})


def test_node_security_group_may_be_provided(bench: Bench, health_requests: list[str]) -> None:
    bench.construct(CLUSTER, "c", {**COMMON, "useDefaultVpcCni": True})
    group = "eks:index:Cluster$aws:ec2/securityGroup:SecurityGroup::c-eksClusterSecurityGroup"
    args = {
        "vpcId": "v",
        "clusterSecurityGroup": reference(group, "g"),
        "eksCluster": reference(f"eks:index:Cluster${EKS}", "c"),
        "tags": {"team": "us"},
    }
    state = bench.construct("eks:index:NodeGroupSecurityGroup", "n", args)
    assert state["securityGroup"]["urn"].endswith(
        "NodeGroupSecurityGroup$aws:ec2/securityGroup:SecurityGroup::n-nodeSecurityGroup"
    )
    rules = [
        urn
        for urn in bench.monitor.registered
        if urn.startswith("eks:index:NodeGroupSecurityGroup$aws:ec2/securityGroupRule")
    ]
    assert len(rules) == 5
    assert bench.monitor.resource("::n-nodeSecurityGroup").inputs["tags"] == {
        "Name": "n-nodeSecurityGroup",
        "kubernetes.io/cluster/c-eksCluster": "owned",
        "team": "us",
    }


def test_kubeconfig_for_another_role(bench: Bench, health_requests: list[str]) -> None:
    bench.construct(CLUSTER, "c", TAMED)
    own = {"__self__": reference("eks:index:Cluster::c")}
    answer = bench.call("eks:index:Cluster/getKubeconfig", {**own, "roleArn": ARN, "profileName": "ann"})
    arguments = json.loads(answer["result"])["users"][0]["user"]["exec"]["args"]
    assert arguments[-4:] == ["--role", ARN, "--profile", "ann"]
    with pytest.raises(Aborted, match="region is not known; it takes profileName and roleArn"):
        bench.call("eks:index:Cluster/getKubeconfig", {**own, "region": "x"})
    with pytest.raises(Aborted, match="has the method eks:index:Cluster/getKubeconfig"):
        bench.call("eks:index:Cluster/delete", own)


def test_the_provider_has_no_settings() -> None:
    request = provider_pb2.CheckRequest(
        news=json_format.ParseDict({"region": "x", "version": "4"}, struct_pb2.Struct())
    )
    answer = Servicer("4.4.0", {}).CheckConfig(request, None)
    assert [failure.property for failure in answer.failures] == ["region"]
