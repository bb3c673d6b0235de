"""Roles for tokens: by web identity and by Pod Identity, and what their sessions may do."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config

from agentenv.rehearsal.cloud.server import Cloud
from tests.fast.rehearsal.cloud.calls import ACCOUNT, allow, refused, trust
from tests.fast.rehearsal.cloud.conftest import ClientFactory
from tests.fast.rehearsal.cloud.signer import Signer

AWS, PODS = "sts.amazonaws.com", "pods.eks.amazonaws.com"
WHO = "team/worker"
Make = Callable[..., str]


@pytest.fixture(scope="module", autouse=True)
def known_provider(provider: str) -> None:
    """IAM knows the cluster's own issuer."""


@pytest.fixture
def make(aws_client: ClientFactory) -> Iterator[Make]:
    """Roles by their trust policies, gone at the end."""
    created: list[str] = []

    def role(document: str, **fields: Any) -> str:
        created.append(f"r{len(created)}")
        return aws_client("iam").create_role(RoleName=created[-1], AssumeRolePolicyDocument=document, **fields)["Role"][
            "Arn"
        ]

    yield role
    for name in created:
        for inline in aws_client("iam").list_role_policies(RoleName=name)["PolicyNames"]:
            aws_client("iam").delete_role_policy(RoleName=name, PolicyName=inline)
        aws_client("iam").delete_role(RoleName=name)


@pytest.fixture(scope="module")
def sts(cloud: Cloud) -> Any:
    """Somebody without keys, as a program in a pod."""
    return boto3.client(
        "sts",
        endpoint_url=cloud.url,
        region_name="us-east-1",
        config=Config(signature_version=UNSIGNED, parameter_validation=False, retries={"total_max_attempts": 1}),
    )


def federated(signer: Signer, operator: str = "StringEquals", **tests: str) -> str:
    host = signer.issuer.removeprefix("https://")
    return allow(
        Resource=...,
        Action="sts:AssumeRoleWithWebIdentity",
        Principal={"Federated": f"arn:aws:iam::{ACCOUNT}:oidc-provider/{host}"},
        Condition={operator: {f"{host}:{key}": value for key, value in tests.items()}},
    )


def assume(sts: Any, role: str, token: str, **fields: Any) -> Any:
    return sts.assume_role_with_web_identity(RoleArn=role, RoleSessionName="worker", WebIdentityToken=token, **fields)


def caller(cloud: Cloud, keys: dict[str, Any], service: str = "sts") -> Any:
    return boto3.client(
        service,
        endpoint_url=cloud.url,
        region_name="us-east-1",
        aws_access_key_id=keys.get("AccessKeyId") or keys["accessKeyId"],
        aws_secret_access_key=keys.get("SecretAccessKey") or keys["secretAccessKey"],
        aws_session_token=keys.get("SessionToken") or keys["sessionToken"],
        config=Config(retries={"total_max_attempts": 1}),
    )


def test_token_with_the_trusted_subject_assumes_the_role(cloud: Cloud, sts: Any, signer: Signer, make: Make) -> None:
    role = make(federated(signer, sub="system:serviceaccount:team:worker", aud=AWS))
    credentials = assume(sts, role, signer.token(WHO, AWS))
    assert credentials["SubjectFromWebIdentityToken"] == "system:serviceaccount:team:worker"
    assert credentials["Audience"] == AWS
    who = caller(cloud, credentials["Credentials"]).get_caller_identity()
    assert who["Arn"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/r0/worker" == credentials["AssumedRoleUser"]["Arn"]
    assert credentials["AssumedRoleUser"]["AssumedRoleId"] == who["UserId"]
    patterns = make(federated(signer, "StringLike", sub="system:serviceaccount:team:*"))
    assert assume(sts, patterns, signer.token(WHO, AWS))["Credentials"]["AccessKeyId"].startswith("ASIA")


def test_token_outside_the_trust_policy_is_refused(sts: Any, signer: Signer, make: Make) -> None:
    role = make(federated(signer, sub="system:serviceaccount:team:worker", aud=AWS))
    for account in ("team/other", "other/worker", "team/workers"):
        with refused("AccessDenied"):
            assume(sts, role, signer.token(account, AWS))
    with refused("AccessDenied"):
        assume(sts, make(trust("ec2.amazonaws.com")), signer.token(WHO, AWS))
    with refused("AccessDenied"):
        assume(sts, f"arn:aws:iam::{ACCOUNT}:role/nobody", signer.token(WHO, AWS))
    with refused("AccessDenied"):
        assume(sts, make(federated(signer, "StringLike", sub="system:serviceaccount:tea?:w")), signer.token(WHO, AWS))


def test_token_of_another_issuer_is_refused(
    cloud: Cloud, aws_client: ClientFactory, sts: Any, signer: Signer, make: Make
) -> None:
    role = make(federated(signer, sub="system:serviceaccount:team:worker"))
    good = signer.token(WHO, AWS)
    for wrong in (
        signer.token(WHO, "elsewhere"),
        Signer(signer.issuer).token(WHO, AWS),
        Signer(signer.issuer, "second").token(WHO, AWS),
        Signer("https://unknown.example.com").token(WHO, AWS),
        good[: good.rindex(".")] + ".",
        good.replace(".", ".A", 1),
        signer.signed({"iss": signer.issuer, "aud": AWS, "exp": time.time() + 60}),
        "no token at all",
    ):
        with refused("InvalidIdentityToken"):
            assume(sts, role, wrong)
    with refused("ExpiredTokenException"):
        assume(sts, role, signer.token(WHO, AWS, exp=int(time.time()) - 1))
    with refused("ExpiredTokenException"):
        assume(sts, role, signer.token(WHO, AWS, nbf=int(time.time()) + 600))
    signer.publish(cloud, "DELETE")
    with refused("IDPCommunicationError"):
        assume(sts, role, good)
    signer.publish(cloud)
    assert assume(sts, role, good)


def test_unsigned_tokens_are_refused(sts: Any, signer: Signer, make: Make) -> None:
    role = make(federated(signer, sub="system:serviceaccount:team:worker"))
    claims = {"iss": signer.issuer, "sub": "system:serviceaccount:team:worker", "aud": AWS, "exp": time.time() + 60}
    assert assume(sts, role, signer.signed(claims))
    for algorithm in ("none", "HS256"):
        with refused("InvalidIdentityToken"):
            assume(sts, role, signer.signed(claims, algorithm))


def test_a_session_lasts_as_long_as_its_role_allows(
    cloud: Cloud, sts: Any, signer: Signer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = make(federated(signer, sub="system:serviceaccount:team:worker"), MaxSessionDuration=7200)
    token = signer.token(WHO, AWS)
    with refused("ValidationError"):
        assume(sts, role, token, DurationSeconds=7201)
    with refused("ValidationError"):
        assume(sts, role, token, DurationSeconds=60)
    credentials = assume(sts, role, token, DurationSeconds=7200)["Credentials"]
    left = credentials["Expiration"] - datetime.now(UTC)
    assert timedelta(seconds=7100) < left <= timedelta(seconds=7200)
    assert caller(cloud, credentials).get_caller_identity()
    later = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=7201)
    monkeypatch.setattr("agentenv.rehearsal.cloud.iam.authorization.utcnow", lambda: later)
    with refused("ExpiredToken"):
        caller(cloud, credentials).get_caller_identity()
    with refused("ExpiredTokenException"):
        caller(cloud, credentials, "efs").describe_file_systems()


def test_role_of_another_account_is_evaluated_there(
    cloud: Cloud, aws_client: ClientFactory, sts: Any, signer: Signer
) -> None:
    other = "210987654321"
    opener = aws_client("sts").assume_role(RoleArn=f"arn:aws:iam::{other}:role/opener", RoleSessionName="opener")
    iam = caller(cloud, opener["Credentials"], "iam")
    document = federated(signer, sub="system:serviceaccount:team:worker").replace(ACCOUNT, other)
    role = iam.create_role(RoleName="far", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    with refused("InvalidIdentityToken"):
        assume(sts, role, signer.token(WHO, AWS))
    provider = iam.create_open_id_connect_provider(Url=signer.issuer, ClientIDList=[AWS])["OpenIDConnectProviderArn"]
    credentials = assume(sts, role, signer.token(WHO, AWS))["Credentials"]
    assert caller(cloud, credentials).get_caller_identity()["Account"] == other
    with refused("AccessDeniedException"):
        caller(cloud, credentials, "efs").describe_file_systems()
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=provider)
    iam.delete_role(RoleName="far")


def agent_trust(**fields: Any) -> str:
    actions = ["sts:AssumeRole", "sts:TagSession"]
    return allow(**{"Resource": ..., "Action": actions, "Principal": {"Service": PODS}, **fields})


@pytest.fixture
def associate(aws_client: ClientFactory, signer: Signer) -> Iterator[Callable[..., dict[str, Any]]]:
    created: list[str] = []

    def association(role: str, account: str = WHO, **fields: Any) -> dict[str, Any]:
        space, _, name = account.partition("/")
        credentials = aws_client("eks").create_pod_identity_association(
            clusterName="k", namespace=space, serviceAccount=name, roleArn=role, **fields
        )["association"]
        created.append(credentials["associationId"])
        return credentials

    yield association
    for created_ in created:
        aws_client("eks").delete_pod_identity_association(clusterName="k", associationId=created_)


def test_pod_identity_assumes_the_associated_role(
    cloud: Cloud, aws_client: ClientFactory, signer: Signer, make: Make, associate: Callable[..., Any]
) -> None:
    tests = {
        "StringEquals": {
            "aws:SourceAccount": ACCOUNT,
            "aws:RequestTag/kubernetes-namespace": "team",
            "aws:RequestTag/kubernetes-service-account": "worker",
        },
        "ArnEquals": {"aws:SourceArn": f"arn:aws:eks:us-east-1:{ACCOUNT}:cluster/k"},
    }
    association = associate(make(agent_trust(Condition=tests)))
    credentials = aws_client("eks-auth").assume_role_for_pod_identity(
        clusterName="k", token=signer.token(WHO, PODS, pod="w-0")
    )
    assert credentials["subject"] == {"namespace": "team", "serviceAccount": "worker"}
    assert credentials["audience"] == PODS
    assert credentials["podIdentityAssociation"]["associationId"] == association["associationId"]
    who = caller(cloud, credentials["credentials"]).get_caller_identity()
    assert who["Arn"] == credentials["assumedRoleUser"]["arn"]
    assert ":assumed-role/r0/eks-k-w-0-" in who["Arn"]


def test_pod_identity_refuses_other_tokens_and_roles_that_do_not_trust_it(
    aws_client: ClientFactory, signer: Signer, make: Make, associate: Callable[..., Any]
) -> None:
    auth = aws_client("eks-auth")
    nobody: dict[str, Any] = {"kubernetes.io": {}}
    associate(make(agent_trust()))
    for wrong, code in (
        (signer.token(WHO, AWS), "InvalidTokenException"),
        (Signer(signer.issuer).token(WHO, PODS), "InvalidTokenException"),
        (Signer("https://unknown.example.com").token(WHO, PODS), "InvalidTokenException"),
        (signer.token(WHO, PODS, **nobody), "InvalidTokenException"),
        (signer.token(WHO, PODS, exp=int(time.time()) - 1), "ExpiredTokenException"),
        (signer.token("team/other", PODS), "ResourceNotFoundException"),
    ):
        with refused(code):
            auth.assume_role_for_pod_identity(clusterName="k", token=wrong)
    with refused("ResourceNotFoundException"):
        auth.assume_role_for_pod_identity(clusterName="none", token=signer.token(WHO, PODS))
    for number, document in enumerate(
        (
            agent_trust(Action="sts:AssumeRole"),
            agent_trust(Principal={"Service": "ec2.amazonaws.com"}),
            agent_trust(Condition={"StringEquals": {"aws:RequestTag/kubernetes-namespace": "other"}}),
            agent_trust(Condition={"ArnEquals": {"aws:SourceArn": "arn:aws:eks:us-east-1:123456789012:cluster/j"}}),
        )
    ):
        associate(make(document), f"team/w{number}")
        with refused("AccessDeniedException"):
            auth.assume_role_for_pod_identity(clusterName="k", token=signer.token(f"team/w{number}", PODS))
    # Without tags, nothing has to be tagged
    associate(make(agent_trust(Action="sts:AssumeRole")), "team/plain", disableSessionTags=True)
    assert auth.assume_role_for_pod_identity(clusterName="k", token=signer.token("team/plain", PODS))


def test_pod_identity_chains_to_the_target_role(
    cloud: Cloud, aws_client: ClientFactory, signer: Signer, make: Make, associate: Callable[..., Any]
) -> None:
    first = make(agent_trust())
    known = {"StringEquals": {"sts:ExternalId": f"us-east-1/{ACCOUNT}/k/team/worker"}}
    actions = ["sts:AssumeRole", "sts:TagSession"]
    target = make(allow(Resource=..., Action=actions, Principal={"AWS": first}, Condition=known))
    associate(first, targetRoleArn=target)
    credentials = aws_client("eks-auth").assume_role_for_pod_identity(clusterName="k", token=signer.token(WHO, PODS))
    assert ":assumed-role/r1/" in caller(cloud, credentials["credentials"]).get_caller_identity()["Arn"]
    associate(first, "team/far", targetRoleArn=target)
    with refused("AccessDeniedException"):
        aws_client("eks-auth").assume_role_for_pod_identity(clusterName="k", token=signer.token("team/far", PODS))


def test_pod_session_has_the_rights_of_its_role(
    cloud: Cloud, aws_client: ClientFactory, sts: Any, signer: Signer, make: Make
) -> None:
    iam, owner = aws_client("iam"), aws_client("efs")
    role = make(federated(signer, sub="system:serviceaccount:team:worker"))
    system = owner.create_file_system(CreationToken="rights")
    name, arn = system["FileSystemId"], system["FileSystemArn"]
    keys = assume(sts, role, signer.token(WHO, AWS))["Credentials"]
    efs = caller(cloud, keys, "efs")
    mark = [{"Key": "mark", "Value": "true"}]
    user = {"Uid": 1, "Gid": 1}

    def may(*statements: dict[str, Any]) -> None:
        document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
        iam.put_role_policy(RoleName="r0", PolicyName="p", PolicyDocument=document)

    def statement(action: str, resource: str = "*", **tests: Any) -> dict[str, Any]:
        fields = {"Effect": "Allow", "Action": f"elasticfilesystem:{action}", "Resource": resource}
        return {**fields, "Condition": tests} if tests else fields

    marked = statement("CreateAccessPoint", arn, StringEquals={"aws:RequestTag/mark": "true"})
    tagging = statement("TagResource", StringEquals={"elasticfilesystem:CreateAction": "CreateAccessPoint"})
    with refused("AccessDeniedException"):
        efs.describe_access_points(FileSystemId=name)
    may(statement("Describe*", arn), marked)
    assert efs.describe_access_points(FileSystemId=name)["AccessPoints"] == []
    with refused("AccessDeniedException"):
        efs.describe_file_systems()
    with refused("AccessDeniedException"):
        efs.create_access_point(FileSystemId=name, ClientToken="a", PosixUser=user)
    with refused("AccessDeniedException"):
        efs.create_access_point(FileSystemId=name, ClientToken="a", PosixUser=user, Tags=mark)
    may(marked, tagging, statement("DeleteAccessPoint", StringEquals={"aws:ResourceTag/mark": "true"}))
    created = efs.create_access_point(FileSystemId=name, ClientToken="a", PosixUser=user, Tags=mark)["AccessPointId"]
    other = owner.create_access_point(FileSystemId=name, ClientToken="b", PosixUser=user)["AccessPointId"]
    with refused("AccessDeniedException"):
        efs.delete_access_point(AccessPointId=other)
    with refused("AccessPointNotFound"):
        efs.delete_access_point(AccessPointId="fsap-00000000")
    deny = {**statement("DeleteAccessPoint"), "Effect": "Deny"}
    may(statement("*"), deny)
    with refused("AccessDeniedException"):
        efs.delete_access_point(AccessPointId=created)
    may(statement("*"))
    boundary = iam.create_policy(
        PolicyName="b", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement("Describe*")]})
    )["Policy"]["Arn"]
    iam.put_role_permissions_boundary(RoleName="r0", PermissionsBoundary=boundary)
    assert len(efs.describe_access_points(FileSystemId=name)["AccessPoints"]) == 2
    with refused("AccessDeniedException"):
        efs.delete_access_point(AccessPointId=created)
    iam.delete_role_permissions_boundary(RoleName="r0")
    efs.delete_access_point(AccessPointId=created)
    iam.delete_policy(PolicyArn=boundary)
    owner.delete_file_system(FileSystemId=name)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"keys": []}, "an object of issuer"),
        ({"issuer": "http://a", "keys": [{"kid": "k"}]}, "an https address"),
        ({"issuer": "https://a", "keys": []}, "a list of keys"),
        ({"issuer": "https://a", "keys": [{}]}, "each with its kid"),
    ],
)
def test_issuer_publishes_its_keys(cloud: Cloud, fields: dict[str, Any], words: str) -> None:
    request = urllib.request.Request(f"{cloud.url}/_cloud/issuers", json.dumps(fields).encode())  # noqa: S310 -- loopback
    with pytest.raises(urllib.error.HTTPError) as failure:
        urllib.request.urlopen(request)  # noqa: S310 -- loopback
    assert failure.value.code == 400
    assert words in json.load(failure.value)["message"]


def test_a_session_creates_the_role_of_a_service_only_if_its_role_may(
    cloud: Cloud, aws_client: ClientFactory, sts: Any, signer: Signer, make: Make
) -> None:
    role = make(federated(signer, sub="system:serviceaccount:team:worker"))
    iam = caller(cloud, assume(sts, role, signer.token(WHO, AWS))["Credentials"], "iam")
    spot = {"AWSServiceName": "spot.amazonaws.com"}
    with refused("AccessDenied"):
        iam.create_service_linked_role(**spot)
    condition = {"StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}}
    document = allow(Action="iam:CreateServiceLinkedRole", Condition=condition)
    aws_client("iam").put_role_policy(RoleName="r0", PolicyName="p", PolicyDocument=document)
    assert iam.create_service_linked_role(**spot)["Role"]["RoleName"] == "AWSServiceRoleForEC2Spot"
    with refused("InvalidInput"):
        iam.create_service_linked_role(**spot)
    with refused("AccessDenied"):
        iam.create_service_linked_role(AWSServiceName="eks.amazonaws.com")
    aws_client("iam").delete_role(RoleName="AWSServiceRoleForEC2Spot")
