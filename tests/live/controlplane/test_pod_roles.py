"""Roles for pods: tokens that the API server signs, exchanged at the simulated STS and at EKS Auth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from agentenv.rehearsal.controlplane.client import Client
from tests.live.conftest import CLUSTER, REGION, World
from tests.live.controlplane.objects import becomes_ready, namespace, pod

ACCOUNT = "123456789012"
SPACE, NAME = "roles", "worker"
AWS, PODS = "sts.amazonaws.com", "pods.eks.amazonaws.com"


@pytest.fixture(scope="module")
def client(world: World) -> Client:
    """Two service accounts and a pod of one of them."""
    client = world.plane.client
    namespace(client, SPACE)
    for name in (NAME, "other"):
        about = {"name": name, "namespace": SPACE}
        client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about})
    client.apply(pod(SPACE, "w-0", serviceAccountName=NAME))
    assert becomes_ready(client, f"/api/v1/namespaces/{SPACE}/pods/w-0")
    return client


@pytest.fixture(scope="module")
def issuer(world: World) -> Iterator[str]:
    """The provider by whose name IAM knows the cluster's issuer, which is the one that DescribeCluster tells."""
    url = world.aws("eks").describe_cluster(name=CLUSTER)["cluster"]["identity"]["oidc"]["issuer"]
    iam = world.aws("iam")
    arn = iam.create_open_id_connect_provider(Url=url, ClientIDList=[AWS])["OpenIDConnectProviderArn"]
    yield arn
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=arn)


def role(world: World, name: str, **statement: Any) -> str:
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]}
    created = world.aws("iam").create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(document))
    return created["Role"]["Arn"]


def token(client: Client, audience: str, name: str = NAME, of_pod: bool = False) -> str:
    """Return a token as kubelets request it for the token volumes of pods."""
    spec: dict[str, Any] = {"audiences": [audience], "expirationSeconds": 600}
    if of_pod:
        found = client.get(f"/api/v1/namespaces/{SPACE}/pods/w-0")["metadata"]
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": "w-0", "uid": found["uid"]}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return client.request("POST", f"/api/v1/namespaces/{SPACE}/serviceaccounts/{name}/token", request)["status"][
        "token"
    ]


def caller(world: World, keys: dict[str, Any]) -> str:
    found = {name.lower(): value for name, value in keys.items()}
    return boto3.client(
        "sts",
        endpoint_url=world.environment["AWS_ENDPOINT_URL"],
        region_name=REGION,
        aws_access_key_id=found["accesskeyid"],
        aws_secret_access_key=found["secretaccesskey"],
        aws_session_token=found["sessiontoken"],
    ).get_caller_identity()["Arn"]


def refusal(call: Any, **parameters: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(**parameters)
    return refused.value.response["Error"]["Code"]


def test_a_role_by_web_identity_is_for_one_account_and_one_audience(world: World, client: Client, issuer: str) -> None:
    host = issuer.partition("oidc-provider/")[2]
    arn = role(
        world,
        "web",
        Action="sts:AssumeRoleWithWebIdentity",
        Principal={"Federated": issuer},
        Condition={"StringEquals": {f"{host}:sub": f"system:serviceaccount:{SPACE}:{NAME}", f"{host}:aud": AWS}},
    )
    assume = world.aws("sts").assume_role_with_web_identity
    parameters = {"RoleArn": arn, "RoleSessionName": "session"}
    session = assume(**parameters, WebIdentityToken=token(client, AWS))
    assert caller(world, session["Credentials"]) == f"arn:aws:sts::{ACCOUNT}:assumed-role/web/session"
    assert refusal(assume, **parameters, WebIdentityToken=token(client, AWS, "other")) == "AccessDenied"
    assert refusal(assume, **parameters, WebIdentityToken=token(client, PODS)) == "InvalidIdentityToken"
    changed = token(client, AWS)[:-8] + "AAAAAAAA"
    assert refusal(assume, **parameters, WebIdentityToken=changed) == "InvalidIdentityToken"


def test_a_role_by_pod_identity_is_for_the_pods_of_its_association(world: World, client: Client) -> None:
    tests = {
        "StringEquals": {
            "aws:RequestTag/kubernetes-service-account": NAME,
            "aws:RequestTag/kubernetes-pod-name": "w-0",
            "aws:RequestTag/eks-cluster-name": CLUSTER,
        }
    }
    actions = ["sts:AssumeRole", "sts:TagSession"]
    arn = role(world, "agent", Action=actions, Principal={"Service": PODS}, Condition=tests)
    eks, assume = world.aws("eks"), world.aws("eks-auth").assume_role_for_pod_identity
    parameters = {"clusterName": CLUSTER, "token": token(client, PODS, of_pod=True)}
    assert refusal(assume, **parameters) == "ResourceNotFoundException"
    pair = {"namespace": SPACE, "serviceAccount": NAME}
    association = eks.create_pod_identity_association(clusterName=CLUSTER, roleArn=arn, **pair)["association"]
    try:
        session = assume(**parameters)
        assert session["subject"] == pair
        assert caller(world, session["credentials"]).startswith(f"arn:aws:sts::{ACCOUNT}:assumed-role/agent/eks-")
        # The same account's token, of no pod: what the role asks of its tags is not met
        assert refusal(assume, clusterName=CLUSTER, token=token(client, PODS)) == "AccessDeniedException"
        other = token(client, PODS, "other")
        assert refusal(assume, clusterName=CLUSTER, token=other) == "ResourceNotFoundException"
        wrong = token(client, AWS, of_pod=True)
        assert refusal(assume, clusterName=CLUSTER, token=wrong) == "InvalidTokenException"
    finally:
        eks.delete_pod_identity_association(clusterName=CLUSTER, associationId=association["associationId"])
    assert refusal(assume, **parameters) == "ResourceNotFoundException"
