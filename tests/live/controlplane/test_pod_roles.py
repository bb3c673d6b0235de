"""Roles for pods: tokens that the API server signs, exchanged at the simulated STS and at EKS Auth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from agentenv.rehearsal.controlplane.client import Client
from tests.live.conftest import CLUSTER, REGION, LiveCluster
from tests.live.controlplane.objects import becomes_ready, create_namespace, pod

ACCOUNT = "123456789012"
SPACE, NAME = "roles", "worker"
AWS, PODS = "sts.amazonaws.com", "pods.eks.amazonaws.com"


@pytest.fixture(scope="module")
def client(live: LiveCluster) -> Client:
    """Two service accounts and a pod of one of them."""
    client = live.plane.client
    create_namespace(client, SPACE)
    for name in (NAME, "other"):
        about = {"name": name, "namespace": SPACE}
        client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about})
    client.apply(pod(SPACE, "w-0", serviceAccountName=NAME))
    assert becomes_ready(client, f"/api/v1/namespaces/{SPACE}/pods/w-0")
    return client


@pytest.fixture(scope="module")
def issuer(live: LiveCluster) -> Iterator[str]:
    """The OIDC provider of the cluster's issuer in IAM."""
    url = live.aws("eks").describe_cluster(name=CLUSTER)["cluster"]["identity"]["oidc"]["issuer"]
    iam = live.aws("iam")
    arn = iam.create_open_id_connect_provider(Url=url, ClientIDList=[AWS])["OpenIDConnectProviderArn"]
    yield arn
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=arn)


def role(live: LiveCluster, name: str, **statement: Any) -> str:
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]}
    created = live.aws("iam").create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(document))
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


def caller(live: LiveCluster, keys: dict[str, Any]) -> str:
    found = {name.lower(): value for name, value in keys.items()}
    return boto3.client(
        "sts",
        endpoint_url=live.environment["AWS_ENDPOINT_URL"],
        region_name=REGION,
        aws_access_key_id=found["accesskeyid"],
        aws_secret_access_key=found["secretaccesskey"],
        aws_session_token=found["sessiontoken"],
    ).get_caller_identity()["Arn"]


def refusal(call: Any, **parameters: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(**parameters)
    return refused.value.response["Error"]["Code"]


def test_web_identity_role_is_for_one_account_and_audience(live: LiveCluster, client: Client, issuer: str) -> None:
    host = issuer.partition("oidc-provider/")[2]
    arn = role(
        live,
        "web",
        Action="sts:AssumeRoleWithWebIdentity",
        Principal={"Federated": issuer},
        Condition={"StringEquals": {f"{host}:sub": f"system:serviceaccount:{SPACE}:{NAME}", f"{host}:aud": AWS}},
    )
    assume = live.aws("sts").assume_role_with_web_identity
    parameters = {"RoleArn": arn, "RoleSessionName": "session"}
    session = assume(**parameters, WebIdentityToken=token(client, AWS))
    assert caller(live, session["Credentials"]) == f"arn:aws:sts::{ACCOUNT}:assumed-role/web/session"
    assert refusal(assume, **parameters, WebIdentityToken=token(client, AWS, "other")) == "AccessDenied"
    assert refusal(assume, **parameters, WebIdentityToken=token(client, PODS)) == "InvalidIdentityToken"
    changed = token(client, AWS)[:-8] + "AAAAAAAA"
    assert refusal(assume, **parameters, WebIdentityToken=changed) == "InvalidIdentityToken"


def test_pod_identity_role_is_for_the_pods_of_its_association(live: LiveCluster, client: Client) -> None:
    tests = {
        "StringEquals": {
            "aws:RequestTag/kubernetes-service-account": NAME,
            "aws:RequestTag/kubernetes-pod-name": "w-0",
            "aws:RequestTag/eks-cluster-name": CLUSTER,
        }
    }
    actions = ["sts:AssumeRole", "sts:TagSession"]
    arn = role(live, "agent", Action=actions, Principal={"Service": PODS}, Condition=tests)
    eks, assume = live.aws("eks"), live.aws("eks-auth").assume_role_for_pod_identity
    parameters = {"clusterName": CLUSTER, "token": token(client, PODS, of_pod=True)}
    assert refusal(assume, **parameters) == "ResourceNotFoundException"
    pair = {"namespace": SPACE, "serviceAccount": NAME}
    association = eks.create_pod_identity_association(clusterName=CLUSTER, roleArn=arn, **pair)["association"]
    try:
        session = assume(**parameters)
        assert session["subject"] == pair
        assert caller(live, session["credentials"]).startswith(f"arn:aws:sts::{ACCOUNT}:assumed-role/agent/eks-")
        # A token of the same account without a pod lacks the tags that the role requires
        assert refusal(assume, clusterName=CLUSTER, token=token(client, PODS)) == "AccessDeniedException"
        other = token(client, PODS, "other")
        assert refusal(assume, clusterName=CLUSTER, token=other) == "ResourceNotFoundException"
        wrong = token(client, AWS, of_pod=True)
        assert refusal(assume, clusterName=CLUSTER, token=wrong) == "InvalidTokenException"
    finally:
        eks.delete_pod_identity_association(clusterName=CLUSTER, associationId=association["associationId"])
    assert refusal(assume, **parameters) == "ResourceNotFoundException"
