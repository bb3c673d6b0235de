"""Components as other languages construct them: from the name of an environment, its settings, and ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from agentenv.components._lib.arguments import ArgumentError
from agentenv.components.package import EXPORTED_COMPONENTS
from tests.fast.components.graph import Graph, registered
from tests.fast.config.stack_samples import config, fargate, sandbox

COMPONENTS: dict[str, Callable[..., Any]] = {component.__name__: component for component in EXPORTED_COMPONENTS}
ISSUER = {"issuer_url": "https://oidc.example.com/id/1", "issuer_arn": "arn:aws:iam::123456789012:oidc-provider/o"}
SYSTEMS = {"file_system_ids": ["fs-0", "fs-1"]}
EXCHANGE = sandbox(identity={"kind": "exchange", "policies": []}, capabilities=["dns", "identity"])
SERVICE = {"image": f"registry.example.com/service@sha256:{'ab' * 32}"}


def construct(kind: str, sections: dict[str, Any], **ids: Any) -> Graph:
    args = {"environment": "dev", "settings": config(sections), **ids}
    return registered(lambda: COMPONENTS[kind]("far", args, None))


def test_a_class_is_created_from_the_settings_of_its_environment() -> None:
    sections = {"sandboxClasses": [sandbox()], "storage": {"fileSystems": 2}}
    graph = construct("SandboxClass", sections, sandbox_class="standard", **ISSUER, **SYSTEMS)
    assert graph.resource("Namespace").inputs["metadata"]["name"] == "sandbox-standard"
    assert [storage_class.inputs["parameters"]["fileSystemId"] for storage_class in graph.of("StorageClass")] == [
        "fs-0",
        "fs-1",
    ]


def test_a_number_from_another_language_is_a_float() -> None:
    graph = construct("Network", {"network": {"zones": 3.0}})
    assert len(graph.of("Subnet")) == 6


def test_a_declared_workspace_is_found_by_its_name() -> None:
    seats = [{"name": "desk", "class": "standard", "user": "u-1"}]
    sections = {"sandboxClasses": [sandbox()], "workspaces": seats}
    template = {"podTemplate": {"metadata": {"labels": {}}, "spec": {"containers": [{"name": "sandbox"}]}}}
    with pytest.raises(ArgumentError, match="found 'chair'; allowed: desk"):
        construct("Workspace", sections, seat="chair", file_system_id="fs-1", template=template)


@pytest.mark.parametrize(
    ("kind", "sections", "ids", "message"),
    [
        ("Network", {"network": {"nat": "both"}}, {}, r"settings: found mistakes\n.*network\.nat"),
        ("Network", {"netwrok": {}}, {}, "did you mean 'network'"),
        ("Environment", {"sandboxClases": []}, {}, "sandboxClases"),
        ("ClusterCosts", {"cost": {"dashboards": False}}, {}, "found no metering in the cluster"),
        ("StorageMetering", {}, {**ISSUER, **SYSTEMS}, "storageMetering"),
        ("WorkspaceService", {}, {**ISSUER, **SYSTEMS}, "service.image with a digest"),
        (
            "WorkspaceService",
            {"service": SERVICE, "sandboxClasses": [EXCHANGE]},
            {**ISSUER, **SYSTEMS},
            "vpcId: found nothing",
        ),
        (
            "SandboxClass",
            {"sandboxClasses": [sandbox()]},
            {**ISSUER, **SYSTEMS, "sandbox_class": "standart"},
            "sandboxClass: found 'standart'; allowed: standard",
        ),
        (
            "SandboxClass",
            {"sandboxClasses": [fargate()]},
            {**ISSUER, **SYSTEMS, "sandbox_class": "batch"},
            "securityGroupIds: found nothing",
        ),
    ],
)
def test_a_wrong_argument_is_named_before_anything_is_created(
    kind: str, sections: dict[str, Any], ids: dict[str, Any], message: str
) -> None:
    seen: list[Graph] = []
    args = {"environment": "dev", "settings": config(sections), **ids}
    with pytest.raises(ArgumentError, match=message):
        registered(lambda: COMPONENTS[kind]("far", args, None), seen=seen)
    assert seen[0].resources == []


def test_settings_that_are_known_too_late_are_refused() -> None:
    def program() -> None:
        COMPONENTS["Network"]("far", {"environment": "dev", "settings": pulumi.Output.from_input(config())}, None)

    with pytest.raises(ArgumentError, match="settings: found an output of another resource"):
        registered(program)
