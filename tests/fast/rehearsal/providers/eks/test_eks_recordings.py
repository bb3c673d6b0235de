"""The stand-in beside what the official component registered under the real engine, in two configurations."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentenv.rehearsal.providers.eks import inputs
from tests.fast.rehearsal.providers.eks.conftest import COMMON, SUBNETS, TAMED, VPC
from tests.fast.rehearsal.providers.eks.monitor import ENDPOINT, PREFIX, RESOURCE, SIGNATURE, Bench, reference

DEFAULT: dict[str, Any] = {
    **COMMON,
    "fargate": {"selectors": [{"namespace": "karpenter"}]},
    "vpcCniOptions": {"enableNetworkPolicy": True, "addonVersion": "v1.22.4-eksbuild.1"},
}
CONFIGURATIONS = {"default": DEFAULT, "tamed": TAMED}
DEPENDS = [VPC, *SUBNETS.values()]


@pytest.fixture
def recorded(facts: Path) -> dict[str, Any]:
    return json.loads((facts / "eks-component.json").read_text(encoding="utf-8"))


@pytest.fixture
def schema(facts: Path) -> dict[str, Any]:
    return json.loads((facts / "eks-schema.json").read_text(encoding="utf-8"))


def build(bench: Bench, configuration: str) -> dict[str, Any]:
    """The recorded program: the cluster; and, in the tamed one, an add-on of its own."""
    state = bench.construct("eks:index:Cluster", "c", CONFIGURATIONS[configuration], depends=DEPENDS)
    if configuration == "tamed":
        addon = {
            "cluster": reference("eks:index:Cluster::c"),
            "addonName": "aws-efs-csi-driver",
            "addonVersion": "v2.1.0-eksbuild.1",
            "configurationValues": {"a": 1},
        }
        bench.construct("eks:index:Addon", "ad", addon)
    return state


def lines(events: list[Any]) -> list[str]:
    return sorted(json.dumps(event, sort_keys=True) for event in events)


def floats(value: Any) -> Any:
    """Numbers as the recording has them."""
    return json.loads(json.dumps(value), parse_int=float)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_the_same_children_are_created_with_the_same_inputs(
    recorded: dict[str, Any], bench: Bench, health_requests: list[str], configuration: str
) -> None:
    build(bench, configuration)
    expected = [e for e in recorded[configuration]["events"] if "create" in e]
    found = [{"create": kind, "name": name, "inputs": inputs} for kind, name, inputs in bench.monitor.created()]
    assert lines(floats(found)) == lines(floats(expected))


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_same_functions_are_invoked(
    recorded: dict[str, Any], bench: Bench, health_requests: list[str], configuration: str
) -> None:
    build(bench, configuration)
    assert lines(bench.monitor.functions) == lines([e for e in recorded[configuration]["events"] if "function" in e])


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_every_resource_has_the_same_parents_and_dependencies(
    recorded: dict[str, Any], bench: Bench, health_requests: list[str], configuration: str
) -> None:
    build(bench, configuration)
    found = {urn: set(resource.depends) for urn, resource in bench.monitor.registered.items()}
    assert found == {urn: set(depends) for urn, depends in recorded[configuration]["dependencies"].items()}


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_the_outputs_are_the_same(
    recorded: dict[str, Any], bench: Bench, health_requests: list[str], configuration: str
) -> None:
    state = build(bench, configuration)
    expected = comparable(recorded[configuration]["outputs"]["eks:index:Cluster"])
    assert floats(comparable(bench.monitor.outputs["eks:index:Cluster::c"])) == floats(expected)
    assert floats(comparable(state)) == floats(expected)
    assert health_requests == [ENDPOINT]


def comparable(value: Any) -> Any:
    """Without what differs from run to run: the id of a provider, and which package's version a reference names."""
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get(SIGNATURE) == RESOURCE:
        outputs = {"urn": value["urn"]}
        return outputs if "pulumi:providers:" in value["urn"] else {**outputs, "id": value.get("id")}
    return {key: comparable(item) for key, item in value.items()}


def test_urns_in_the_outputs_are_those_of_the_recording(
    recorded: dict[str, Any], bench: Bench, health_requests: list[str]
) -> None:
    build(bench, "tamed")
    outputs = bench.monitor.outputs["eks:index:Cluster::c"]
    assert outputs is not None
    assert outputs["eksCluster"]["urn"] == PREFIX + "eks:index:Cluster$aws:eks/cluster:Cluster::c-eksCluster"
    assert outputs["kubeconfigJson"] == recorded["tamed"]["outputs"]["eks:index:Cluster"]["kubeconfigJson"]


# -- the schema -------------------------------------------------------------------------------------------------------


def test_every_component_of_the_schema_is_mapped_or_refused(schema: dict[str, Any]) -> None:
    assert set(schema["resources"]) == set(inputs.SHAPES) | set(inputs.UNSUPPORTED_TYPES)
    assert not set(inputs.SHAPES) & set(inputs.UNSUPPORTED_TYPES)


@pytest.mark.parametrize("kind", inputs.SHAPES)
def test_every_input_of_a_component_is_mapped_or_refused(schema: dict[str, Any], kind: str) -> None:
    shape = inputs.SHAPES[kind]
    assert set(shape.supported) | set(shape.unsupported) == set(schema["resources"][kind]["inputProperties"])
    assert not set(shape.supported) & set(shape.unsupported)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("AccessEntry", inputs.ACCESS),
        ("AccessPolicyAssociation", inputs.POLICY),
        ("CoreDnsAddonOptions", inputs.ADDON_OPTIONS),
        ("FargateProfile", inputs.FARGATE),
        ("KubeProxyAddonOptions", inputs.ADDON_OPTIONS),
        ("KubeconfigOptions", inputs.CREDENTIALS),
        ("VpcCniOptions", inputs.CNI_OPTIONS),
    ],
)
def test_every_part_of_an_input_is_mapped_or_refused(schema: dict[str, Any], kind: str, shape: inputs.Shape) -> None:
    assert set(shape.supported) | set(shape.unsupported) == set(schema["types"][f"eks:index:{kind}"]["properties"])
