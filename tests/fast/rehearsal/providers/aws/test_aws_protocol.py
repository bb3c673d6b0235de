"""The stand-in over the wire, as the engine speaks to it: secrets, half-made resources, errors, and leaving."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import psutil
import pytest
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from agentenv.rehearsal.providers.aws.api_calls import Cloud, CloudError
from agentenv.rehearsal.providers.aws.provider import Provider
from agentenv.rehearsal.providers.aws.servicer import Servicer
from agentenv.rehearsal.providers.common.errors import status_type
from agentenv.rehearsal.providers.common.property_values import UNKNOWN, Path, decode, encode
from agentenv.rehearsal.providers.common.server import start
from tests.fast.rehearsal.providers.aws.samples.sample import ALLOW, Ground

VPC = "aws:ec2/vpc:Vpc"
GROUP = "aws:cloudwatch/logGroup:LogGroup"


def urn(token: str, name: str = "thing") -> str:
    return f"urn:pulumi:dev::proj::agents:index:Network${token}::{name}"


@pytest.fixture(scope="module")
def stub(endpoint: str) -> Iterator[Any]:
    server, port = start(Servicer("7.0.0", Provider()))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, pytest.MonkeyPatch.context() as surroundings:
        client = provider_pb2_grpc.ResourceProviderStub(channel)
        surroundings.setenv("AWS_ENDPOINT_URL", endpoint)
        client.Configure(provider_pb2.ConfigureRequest(args=encode({"region": "us-east-1"}), acceptSecrets=True))
        yield client
    server.stop(None).wait()


def create(
    stub: Any,
    token: str,
    inputs: dict[str, Any],
    *,
    secrets: tuple[Path, ...] = (),
    preview: bool = False,
) -> Any:
    checked = stub.Check(provider_pb2.CheckRequest(urn=urn(token), news=encode(inputs, secrets)))
    assert not checked.failures
    return stub.Create(provider_pb2.CreateRequest(urn=urn(token), properties=checked.inputs, preview=preview))


def test_preview_leaves_computed_outputs_unknown(stub: Any) -> None:
    response = create(stub, VPC, {"cidrBlock": "10.3.0.0/16"}, preview=True)
    out, _ = decode(response.properties)
    assert response.id == ""
    assert out["cidrBlock"] == "10.3.0.0/16"
    assert out["arn"] is UNKNOWN
    assert out["region"] == "us-east-1"


def test_secret_stays_secret(stub: Any, ground: Ground) -> None:
    secrets = (("description",), ("tags", "owner"))
    inputs = {"description": "for nobody to read", "tags": {"owner": "nobody here", "plain": "yes"}}
    response = create(stub, "aws:kms/key:Key", inputs, secrets=secrets)
    out, hidden = decode(response.properties)
    assert out["description"] == "for nobody to read"
    assert {("description",), ("tags", "owner"), ("tagsAll", "owner")} <= hidden
    read = stub.Read(
        provider_pb2.ReadRequest(
            id=response.id,
            urn=urn("aws:kms/key:Key"),
            properties=response.properties,
            inputs=encode(inputs, secrets),
        )
    )
    assert ("description",) in decode(read.properties)[1]
    assert ("description",) in decode(read.inputs)[1]


def test_credentials_of_the_provider_are_secret(stub: Any) -> None:
    news = encode({"accessKey": "AKIAEXAMPLE", "secretKey": "s3cret", "region": "us-east-1"})
    checked = stub.CheckConfig(
        provider_pb2.CheckRequest(urn="urn:pulumi:dev::p::pulumi:providers:aws::default", news=news)
    )
    assert not checked.failures
    assert decode(checked.inputs)[1] == {("accessKey",), ("secretKey",)}


def test_partially_created_resource_is_returned_with_its_id(
    stub: Any, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Cloud.call

    def fail_late(self: Cloud, service: str, operation: str, region: str | None = None, **more: Any) -> Any:
        if operation == "PutRetentionPolicy":
            raise CloudError(service, operation, "LimitExceededException", "not today, hidden owner")
        return whole(self, service, operation, region, **more)

    inputs_sent: dict[str, Any] = {"name": "half", "retentionInDays": 7, "tags": {"owner": "hidden owner"}}
    with monkeypatch.context() as broken:
        broken.setattr(Cloud, "call", fail_late)
        with pytest.raises(grpc.RpcError) as caught:
            create(stub, GROUP, inputs_sent, secrets=(("tags",),))
    error: Any = caught.value
    assert "LimitExceededException: not today" in error.details()
    assert urn(GROUP) in error.details()
    assert "hidden owner" not in error.details()
    assert "Traceback" not in error.details()
    trailing = dict(error.trailing_metadata())
    status = status_type().FromString(trailing["grpc-status-details-bin"])
    failed = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(failed)
    assert failed.id == "half"
    outputs, hidden = decode(failed.properties)
    assert outputs["retentionInDays"] == 0
    assert ("tags",) in hidden
    # The next update has the same inputs as the failed create, and has to finish it all the same.
    inputs = encode(inputs_sent)
    state = failed.properties
    stub.Update(provider_pb2.UpdateRequest(urn=urn(GROUP), id="half", olds=state, old_inputs=inputs, news=inputs))
    assert ground.client("logs").describe_log_groups(logGroupNamePrefix="half")["logGroups"][0]["retentionInDays"] == 7


def test_error_has_the_services_message_and_the_urn(stub: Any) -> None:
    missing = {"vpcId": "vpc-0123456789abcdef0", "cidrBlock": "10.0.0.0/24"}
    with pytest.raises(grpc.RpcError) as caught:
        create(stub, "aws:ec2/subnet:Subnet", missing)
    error: Any = caught.value
    assert "creating aws:ec2/subnet:Subnet" in error.details()
    assert urn("aws:ec2/subnet:Subnet") in error.details()
    assert "ec2 CreateSubnet: InvalidVpcID.NotFound" in error.details()


def test_deleted_resource_reads_as_absent(stub: Any) -> None:
    state = encode({"cidrBlock": "10.0.0.0/16"})
    gone = provider_pb2.ReadRequest(id="vpc-0123456789abcdef0", urn=urn(VPC), properties=state, inputs=state)
    assert stub.Read(gone).id == ""


def test_import_with_an_invalid_id_names_its_form(stub: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.Read(provider_pb2.ReadRequest(id="rtb-1", urn=urn("aws:ec2/route:Route")))
    error: Any = caught.value
    assert "ROUTETABLEID_DESTINATION" in error.details()


def test_diff_names_the_replacing_properties(stub: Any) -> None:
    old, new = (
        encode({"cidrBlock": "10.0.0.0/16"}),
        encode({"cidrBlock": "10.1.0.0/16", "tags": {"a": "b"}}),
    )
    response = stub.Diff(provider_pb2.DiffRequest(id="vpc-1", urn=urn(VPC), old_inputs=old, olds=old, news=new))
    assert list(response.replaces) == ["cidrBlock"]
    assert response.changes == provider_pb2.DiffResponse.DIFF_SOME
    assert response.detailedDiff["cidrBlock"].kind == provider_pb2.PropertyDiff.UPDATE_REPLACE
    assert response.detailedDiff["tags"].kind == provider_pb2.PropertyDiff.ADD


@pytest.mark.parametrize(
    ("token", "arguments", "expected"),
    [
        ("aws:index/getPartition:getPartition", {}, {"partition": "aws", "dnsSuffix": "amazonaws.com"}),
        ("aws:index/getRegion:getRegion", {}, {"region": "us-east-1", "description": "US East (N. Virginia)"}),
        ("aws:index/getCallerIdentity:getCallerIdentity", {}, {"accountId": "123456789012"}),
        (
            "aws:index/getAvailabilityZones:getAvailabilityZones",
            {"state": "available", "excludeNames": ["us-east-1a", "us-east-1b", "us-east-1c"]},
            {"names": ["us-east-1d", "us-east-1e", "us-east-1f"], "state": "available"},
        ),
        (
            "aws:iam/getPolicyDocument:getPolicyDocument",
            {"statements": [{"actions": ["s3:GetObject"], "resources": ["*"]}]},
            {
                "minifiedJson": json.dumps(json.loads(ALLOW), separators=(",", ":")).replace(
                    '"Effect":"Allow",', '"Effect":"Allow",'
                )
            },
        ),
    ],
)
def test_functions_return_their_outputs(
    stub: Any, token: str, arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    out = invoke(stub, token, **arguments)
    assert {name: out.get(name) for name in expected} == expected


def invoke(stub: Any, token: str, **arguments: Any) -> dict[str, Any]:
    response = stub.Invoke(provider_pb2.InvokeRequest(tok=token, args=encode(arguments)))
    assert not response.failures
    return decode(getattr(response, "return"))[0]


def test_functions_over_a_network(stub: Any, ground: Ground) -> None:
    vpc = ground.vpc()
    subnet = ground.subnet(vpc)

    assert invoke(stub, "aws:ec2/getVpc:getVpc", id=vpc)["cidrBlock"] == "10.20.0.0/16"
    assert invoke(stub, "aws:ec2/getSubnet:getSubnet", id=subnet)["vpcId"] == vpc
    result = invoke(stub, "aws:ec2/getSubnets:getSubnets", filters=[{"name": "vpc-id", "values": [vpc]}])
    assert result["ids"] == [subnet]
    table = invoke(stub, "aws:ec2/getRouteTable:getRouteTable", vpcId=vpc)
    assert table["routes"] == []
    role = ground.role()
    assert invoke(stub, "aws:iam/getRole:getRole", name=role)["arn"].endswith(f"role/{role}")


def test_an_output_that_is_only_a_filter_is_answered_only_when_it_was_an_argument(stub: Any, ground: Ground) -> None:
    """The official functions never read these from the service's answer, although it has them."""
    vpc = ground.vpc()
    subnet = ground.subnet(vpc)
    table = ground.table(vpc)
    ground.client("ec2").associate_route_table(RouteTableId=table, SubnetId=subnet)

    assert "state" not in invoke(stub, "aws:ec2/getVpc:getVpc", id=vpc)
    assert invoke(stub, "aws:ec2/getVpc:getVpc", id=vpc, state="available")["state"] == "available"
    assert "subnetId" not in invoke(stub, "aws:ec2/getRouteTable:getRouteTable", routeTableId=table)
    assert invoke(stub, "aws:ec2/getRouteTable:getRouteTable", subnetId=subnet)["subnetId"] == subnet
    # A subnet's state is read from the answer.
    assert invoke(stub, "aws:ec2/getSubnet:getSubnet", id=subnet)["state"] == "available"


def test_missing_vpc_or_one_in_another_state_is_refused(stub: Any, ground: Ground) -> None:
    for arguments in ({"id": ground.vpc(), "state": "pending"}, {"id": "vpc-0123456789abcdef0"}):
        request = provider_pb2.InvokeRequest(tok="aws:ec2/getVpc:getVpc", args=encode(arguments))
        with pytest.raises(grpc.RpcError, match="no matching EC2 VPC found"):
            stub.Invoke(request)


def test_existing_file_system_is_read(stub: Any, ground: Ground) -> None:
    token, efs = "aws:efs/getFileSystem:getFileSystem", ground.client("efs")
    key = ground.client("kms").create_key()["KeyMetadata"]["Arn"]
    created = efs.create_file_system(
        CreationToken="stands", Encrypted=True, KmsKeyId=key, Tags=[{"Key": "owner", "Value": "files"}]
    )
    efs.put_lifecycle_configuration(
        FileSystemId=created["FileSystemId"], LifecyclePolicies=[{"TransitionToIA": "AFTER_30_DAYS"}]
    )

    def invoke_function(**arguments: Any) -> dict[str, Any]:
        return invoke(stub, token, **arguments)

    result = invoke_function(fileSystemId=created["FileSystemId"])
    assert result == invoke_function(creationToken="stands") == invoke_function(tags={"owner": "files"})
    assert {name: result[name] for name in ("arn", "encrypted", "kmsKeyId", "performanceMode", "tags")} == {
        "arn": created["FileSystemArn"],
        "encrypted": True,
        "kmsKeyId": key,
        "performanceMode": "generalPurpose",
        "tags": {"owner": "files"},
    }
    assert result["lifecyclePolicies"] == [{"transitionToIa": "AFTER_30_DAYS"}]
    assert result["availabilityZoneName"] == ""
    assert result["dnsName"] == f"{created['FileSystemId']}.efs.us-east-1.amazonaws.com"
    with pytest.raises(grpc.RpcError, match="FileSystemNotFound"):
        invoke_function(fileSystemId="fs-0123456789abcdef0")


def test_resources_are_found_by_their_tags(stub: Any, ground: Ground) -> None:
    token, efs = "aws:resourcegroupstaggingapi/getResources:getResources", ground.client("efs")
    system = efs.create_file_system(CreationToken="tagged", Tags=[{"Key": "environment", "Value": "one"}])
    points = [
        efs.create_access_point(
            ClientToken=f"tagged-{number}",
            FileSystemId=system["FileSystemId"],
            Tags=[{"Key": "environment", "Value": "one"}, {"Key": "seat", "Value": f"{number}"}],
        )["AccessPointArn"]
        for number in range(60)
    ]

    def invoke_function(**arguments: Any) -> dict[str, dict[str, str]]:
        result = invoke(stub, token, **arguments)
        return {mapping["resourceArn"]: mapping["tags"] for mapping in result["resourceTagMappingLists"]}

    environment = {"key": "environment", "values": ["one"]}
    # More than one page of them.
    assert set(invoke_function(tagFilters=[environment, {"key": "seat"}])) == set(points)
    assert invoke_function(tagFilters=[{"key": "seat", "values": ["3"]}]) == {
        points[3]: {"environment": "one", "seat": "3"}
    }
    assert invoke_function(tagFilters=[{"key": "seat"}, {"key": "environment", "values": ["two"]}]) == {}
    files = invoke_function(tagFilters=[environment], resourceTypeFilters=["elasticfilesystem:file-system"])
    assert set(files) == {system["FileSystemArn"]}
    group = ground.client("logs")
    group.create_log_group(logGroupName="tagged", tags={"environment": "one"})
    assert len(invoke_function(tagFilters=[environment])) == len(points) + 2


def test_a_functions_mistake_is_named(stub: Any) -> None:
    token = "aws:ec2/getSubnets:getSubnets"
    response = stub.Invoke(provider_pb2.InvokeRequest(tok=token, args=encode({"filter": []})))
    assert [failure.property for failure in response.failures] == ["filter"]


def test_without_an_endpoint_it_refuses_to_work(surroundings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    server, port = start(Servicer("7.0.0", Provider()))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        config = encode({"region": "us-east-1"})
        failures = stub.CheckConfig(provider_pb2.CheckRequest(news=config)).failures
        with pytest.raises(grpc.RpcError, match="never calls AWS itself"):
            stub.Configure(provider_pb2.ConfigureRequest(args=config))
    server.stop(None).wait()
    assert "AWS_ENDPOINT_URL" in failures[0].reason


def test_concurrent_operations_do_not_interfere(stub: Any, ground: Ground) -> None:
    """The engine runs as many operations at once as it has room for; clients are shared between them."""
    vpc = ground.vpc()

    def make(number: int) -> str:
        return create(stub, "aws:ec2/subnet:Subnet", {"vpcId": vpc, "cidrBlock": f"10.20.{number}.0/24"}).id

    with ThreadPoolExecutor(12) as crowd:
        created = set(crowd.map(make, range(12)))
    where = [{"Name": "vpc-id", "Values": [vpc]}]
    result = ground.client("ec2").describe_subnets(Filters=where)["Subnets"]
    assert {subnet["SubnetId"] for subnet in result} == created
    assert len(created) == 12


def test_default_and_ignored_tags(endpoint: str, ground: Ground) -> None:
    provider = Provider()
    config = {"defaultTags": '{"tags":{"owner":"all"}}', "ignoreTags": '{"keyPrefixes":["auto/"],"keys":["seen"]}'}
    provider.configure({"region": "us-east-1", **config})
    inputs, _ = provider.check(VPC, "net", {"cidrBlock": "10.6.0.0/16"}, {})
    id_, outputs = provider.create(VPC, inputs)
    assert outputs["tagsAll"] == outputs["tags"] == {"owner": "all"}
    more = [{"Key": "auto/scan", "Value": "1"}, {"Key": "seen", "Value": "1"}]
    ground.client("ec2").create_tags(Resources=[id_], Tags=more)
    result = provider.read(VPC, id_, outputs, inputs)
    assert result is not None
    assert result[1]["tags"] == {"owner": "all"}


def test_another_account_is_not_touched(endpoint: str) -> None:
    provider = Provider()
    provider.configure({"region": "us-east-1", "allowedAccountIds": '["999999999999"]'})
    inputs, _ = provider.check(VPC, "net", {"cidrBlock": "10.6.0.0/16"}, {})
    with pytest.raises(CloudError, match="123456789012 is not allowed: 999999999999"):
        provider.create(VPC, inputs)


def test_a_role_is_assumed(endpoint: str, ground: Ground) -> None:
    provider = Provider()
    arn = ground.client("iam").get_role(RoleName=ground.role())["Role"]["Arn"]
    provider.configure({"region": "us-east-1", "assumeRoles": json.dumps([{"roleArn": arn, "sessionName": "test"}])})
    out, _ = provider.invoke("aws:index/getCallerIdentity:getCallerIdentity", {})
    assert ":assumed-role/" in out["arn"]
    assert out["arn"].endswith("/test")


@pytest.mark.parametrize("word", [signal.SIGINT, signal.SIGTERM])
def test_process_exits_without_output(word: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "agentenv.rehearsal.providers.aws", "127.0.0.1:1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as started:
        assert started.stdout is not None
        assert int(started.stdout.readline()) > 0
        started.send_signal(word)
        _, complaints = started.communicate(timeout=30)
    assert started.returncode == 0
    assert complaints == ""


LEAVE_A_CHILD = """
import os, subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-m", "agentenv.rehearsal.providers.aws", "127.0.0.1:1"],
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
)
child.stdout.readline()
print(child.pid, flush=True)
os._exit(0)
"""


def test_process_exits_with_its_parent() -> None:
    """An engine that was killed cannot say goodbye."""
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.run(
        [sys.executable, "-c", LEAVE_A_CHILD], env=surroundings, stdout=subprocess.PIPE, text=True, check=True
    )
    orphan = int(parent.stdout)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(orphan).wait(timeout=30)
    assert not psutil.pid_exists(orphan)
