"""A cloud for all of these tests, and boto3 clients for it that check nothing themselves."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from agentenv.rehearsal.cloud.server import Cloud
from agentenv.rehearsal.controlplane.auth.pod_credentials import STS
from tests.fast.rehearsal.cloud.calls import remove, subnets, trust
from tests.fast.rehearsal.cloud.signer import Signer

ClientFactory = Callable[[str], Any]
Census = Callable[[], dict[str, list[str]]]


@pytest.fixture(scope="session")
def cloud() -> Iterator[Cloud]:
    with Cloud.start() as running:
        yield running


@pytest.fixture(scope="session")
def aws_client(cloud: Cloud) -> ClientFactory:
    """A client of a service; boto3's own checks are off, so that the endpoint's are seen."""
    clients: dict[str, Any] = {}

    def client(service: str) -> Any:
        if service not in clients:
            clients[service] = boto3.client(
                service,
                endpoint_url=cloud.url,
                region_name="us-east-1",
                aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
                aws_secret_access_key="no secret",
                config=Config(parameter_validation=False, retries={"max_attempts": 1, "mode": "standard"}),
            )
        return clients[service]

    return client


@pytest.fixture(scope="session")
def census(cloud: Cloud) -> Census:
    return lambda: json.load(urllib.request.urlopen(f"{cloud.url}/_cloud/census"))  # noqa: S310 -- our own loopback


@pytest.fixture
def unchanged(census: Census) -> Iterator[None]:
    """The test leaves nothing behind."""
    before = census()
    yield
    assert census() == before


@pytest.fixture(scope="module")
def role(aws_client: ClientFactory) -> Iterator[str]:
    """The ARN of a role that a cluster may have."""
    yield aws_client("iam").create_role(RoleName="cluster", AssumeRolePolicyDocument=trust())["Role"]["Arn"]
    aws_client("iam").delete_role(RoleName="cluster")


@pytest.fixture(scope="module")
def places(aws_client: ClientFactory) -> Iterator[list[str]]:
    """Two subnets that a cluster may have."""
    vpc, names = subnets(aws_client("ec2"))
    yield names
    remove(aws_client("ec2"), vpc, names)


@pytest.fixture(scope="module")
def signer(cloud: Cloud, aws_client: ClientFactory, role: str, places: list[str]) -> Iterator[Signer]:
    """The issuer of tokens of a cluster named k."""
    eks = aws_client("eks")
    cluster = eks.create_cluster(name="k", roleArn=role, resourcesVpcConfig={"subnetIds": places})["cluster"]
    signer = Signer(cluster["identity"]["oidc"]["issuer"])
    assert signer.publish(cloud)[signer.issuer] == ["first"]
    yield signer
    signer.publish(cloud, "DELETE")
    eks.delete_cluster(name="k")


@pytest.fixture(scope="module")
def provider(aws_client: ClientFactory, signer: Signer) -> Iterator[str]:
    """The ARN of the IAM provider of that issuer."""
    iam = aws_client("iam")
    arn = iam.create_open_id_connect_provider(Url=signer.issuer, ClientIDList=[STS])["OpenIDConnectProviderArn"]
    yield arn
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=arn)
