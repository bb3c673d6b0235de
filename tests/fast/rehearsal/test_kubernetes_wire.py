"""The provider behind its wire: what the engine is answered, and how what goes wrong reaches it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from agentenv.rehearsal.providers.common import server as serving
from agentenv.rehearsal.providers.common import unsimulated
from agentenv.rehearsal.providers.common.errors import status_type
from agentenv.rehearsal.providers.kubernetes.provider import Provider
from agentenv.rehearsal.providers.kubernetes.servicer import Servicer
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, PropertyMap
from agentenv.rehearsal.providers.kubernetes.words import InitFailed

URN = "urn:pulumi:s::p::kubernetes:core/v1:Secret::login"
SECRET: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "hunter2"}}
NOBODY = json.dumps(
    {
        "current-context": "nobody",
        "contexts": [{"name": "nobody", "context": {"cluster": "nobody", "namespace": "mine"}}],
        "clusters": [{"name": "nobody", "cluster": {"server": "https://127.0.0.1:9"}}],
    }
)


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def stub(provider: Provider) -> Iterator[Any]:
    server, port = serving.start(Servicer("4.0.0", provider=provider))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        created: Any = provider_pb2_grpc.ResourceProviderStub(channel)
        created.Configure(provider_pb2.ConfigureRequest(args=PropertyMap({"kubeconfig": NOBODY}).struct()))
        yield created
    server.stop(None).wait()


def checked(stub: Any, **values: Any) -> Any:
    news = PropertyMap({**SECRET, **values}).struct()
    return stub.Check(provider_pb2.CheckRequest(urn=URN, news=news, randomSeed=b"seed"))


def test_plugin_reports_its_name_and_version(stub: Any) -> None:
    assert stub.GetPluginInfo(empty_pb2.Empty()).version == "4.0.0"
    assert json.loads(stub.GetSchema(provider_pb2.GetSchemaRequest()).schema)["name"] == "kubernetes"
    response = stub.Configure(provider_pb2.ConfigureRequest(variables={"kubernetes:config:kubeconfig": NOBODY}))
    assert response.supportsPreview
    assert response.acceptSecrets


def test_checked_inputs_have_name_namespace_and_secrets(stub: Any) -> None:
    response = checked(stub)
    assert list(response.failures) == []
    bag = PropertyMap.of(response.inputs)
    assert bag.values["metadata"]["namespace"] == "mine"
    assert bag.values["metadata"]["name"].startswith("login-")
    assert bag.secrets == {("stringData",)}
    assert [f.property for f in checked(stub, metadata={"generateName": "x-"}).failures] == ["metadata.generateName"]


def test_diff_has_path_and_kind(stub: Any) -> None:
    before = PropertyMap({**SECRET, "metadata": {"name": "x", "labels": {"a.b/c": "1"}}})
    after = PropertyMap(
        {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": UNKNOWN}, "metadata": {"name": "x"}}
    )
    response = stub.Diff(
        provider_pb2.DiffRequest(
            urn=URN, id="mine/x", olds=before.struct(), old_inputs=before.struct(), news=after.struct()
        )
    )
    assert {k: v.kind for k, v in response.detailedDiff.items()} == {
        "metadata.labels": provider_pb2.PropertyDiff.DELETE,
        "stringData.password": provider_pb2.PropertyDiff.UPDATE_REPLACE,
    }
    assert list(response.replaces) == ["stringData.password"]
    assert response.deleteBeforeReplace
    assert response.changes == provider_pb2.DiffResponse.DIFF_SOME


def test_preview_without_a_cluster_returns_the_inputs(stub: Any) -> None:
    inputs = checked(stub).inputs
    response = stub.Create(provider_pb2.CreateRequest(urn=URN, properties=inputs, preview=True))
    assert response.id == ""
    assert response.properties == inputs


def test_errors_have_no_traceback_and_no_secrets(stub: Any) -> None:
    inputs = checked(stub).inputs
    with pytest.raises(grpc.RpcError) as caught:
        stub.Create(provider_pb2.CreateRequest(urn=URN, properties=inputs))
    message: Any = caught.value
    assert "the configured Kubernetes cluster is unreachable: https://127.0.0.1:9" in message.details()
    assert URN in message.details()
    assert "Traceback" not in message.details()
    with pytest.raises(grpc.RpcError) as caught:
        stub.Configure(provider_pb2.ConfigureRequest(args=PropertyMap({"renderYamlToDirectory": "/x"}).struct()))
    message = caught.value
    assert message.details().startswith("renderYamlToDirectory: ")
    with pytest.raises(grpc.RpcError) as caught:
        stub.Invoke(provider_pb2.InvokeRequest(tok="kubernetes:kustomize:directory"))
    message = caught.value
    assert "cannot build kustomizations" in message.details()


def test_engine_records_partially_created_resources(
    stub: Any, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(_resource: Any, inputs: PropertyMap, _timeout: float) -> Any:
        state = PropertyMap({**inputs.values, "status": {}}, frozenset({("stringData",)}))
        raise InitFailed("mine/x", state, inputs, "Secret mine/x was created, but hunter2 is not ready", ["no token"])

    monkeypatch.setattr(provider, "create", create)
    with pytest.raises(grpc.RpcError) as caught:
        stub.Create(provider_pb2.CreateRequest(urn=URN, properties=checked(stub).inputs))
    message: Any = caught.value
    assert message.details() == "Secret mine/x was created, but [secret] is not ready"
    ((_, data),) = [pair for pair in message.trailing_metadata() if pair[0] == "grpc-status-details-bin"]
    detail = provider_pb2.ErrorResourceInitFailed()
    detail.ParseFromString(any_of(data))
    assert detail.id == "mine/x"
    assert list(detail.reasons) == [message.details(), "no token"]
    assert ("stringData",) in PropertyMap.of(detail.properties).secrets
    assert ("stringData",) in PropertyMap.of(detail.inputs).secrets


def any_of(status: bytes) -> bytes:
    created = status_type()()
    created.ParseFromString(status)
    return created.details[0].value


def test_internal_error_is_reported_as_such(stub: Any, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(_resource: Any, _inputs: PropertyMap, _timeout: float) -> Any:
        raise KeyError("hunter2")

    monkeypatch.setattr(provider, "create", create)
    with pytest.raises(grpc.RpcError) as caught:
        stub.Create(provider_pb2.CreateRequest(urn=URN, properties=checked(stub).inputs))
    message: Any = caught.value
    assert message.code() == grpc.StatusCode.INTERNAL
    assert "a fault in the stand-in provider: KeyError: '[secret]'" in message.details()


def test_the_kubeconfig_is_secret_and_decides_what_is_replaced(stub: Any) -> None:
    response = stub.CheckConfig(provider_pb2.CheckRequest(news=PropertyMap({"kubeconfig": NOBODY}).struct()))
    assert PropertyMap.of(response.inputs).secrets == {("kubeconfig",)}
    moved = NOBODY.replace("127.0.0.1:9", "127.0.0.1:10")
    response = stub.DiffConfig(
        provider_pb2.DiffRequest(
            olds=PropertyMap({"kubeconfig": NOBODY}).struct(), news=PropertyMap({"kubeconfig": moved}).struct()
        )
    )
    assert list(response.replaces) == ["kubeconfig"]


def test_unsimulated_features_are_recorded_once(tmp_path: Path) -> None:
    environment = {unsimulated.FILE_VARIABLE: str(tmp_path / "lines")}
    assert not unsimulated.is_recording({})
    assert unsimulated.is_recording(environment)
    assert unsimulated.read_records(tmp_path / "lines") == []
    for what in ("helm chart a", "helm chart b", "helm chart a"):
        unsimulated.record(what, {"version": "1"}, environment)
    assert [line["what"] for line in unsimulated.read_records(tmp_path / "lines")] == ["helm chart a", "helm chart b"]


def test_the_engines_address_is_the_only_argument_that_is_no_option() -> None:
    assert serving.engine_address(["--logflow", "127.0.0.1:5", "-v=3"]) == "127.0.0.1:5"
    assert serving.engine_address([]) == ""
