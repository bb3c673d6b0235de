"""AWS callers: who has an access entry comes in, as what it says, and nobody else does."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Keys

from agentenv.components.cluster.access import GRANTS
from agentenv.core.guardrails import EKS
from agentenv.rehearsal.controlplane.client import ApiError, Client, Credentials, until
from tests.live.conftest import CLUSTER, REGION, World
from tests.live.controlplane.objects import PATIENCE, namespace

POLICY = "arn:aws:eks::aws:cluster-access-policy/"
ALLOWED = '{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}'
TRUST = f'{{"Version": "2012-10-17", "Statement": [{ALLOWED}]}}'


def token(keys: Keys, cluster: str = CLUSTER, age: timedelta = timedelta()) -> str:
    """Return the token that `aws eks get-token` prints for these keys."""
    request = AWSRequest(
        "GET",
        f"https://sts.{REGION}.amazonaws.com/",
        params={"Action": "GetCallerIdentity", "Version": "2011-06-15"},
        headers={"x-k8s-aws-id": cluster},
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("botocore.auth.get_current_datetime", lambda: datetime.now(UTC) - age)
        SigV4QueryAuth(keys, "sts", REGION, expires=60).add_auth(request)
    assert request.url is not None
    return "k8s-aws-v1." + base64.urlsafe_b64encode(request.url.encode()).decode().rstrip("=")


@pytest.fixture(scope="module")
def own(world: World) -> Keys:
    """The keys of the run itself, whose caller is the IAM user that moto takes everybody for."""
    world.aws("iam").create_user(UserName="moto")
    return Keys(world.environment["AWS_ACCESS_KEY_ID"], world.environment["AWS_SECRET_ACCESS_KEY"])


@pytest.fixture(scope="module")
def operator(world: World) -> tuple[str, Keys]:
    """A role, and the keys of a session of it."""
    arn = world.aws("iam").create_role(Path="/teams/", RoleName="operator", AssumeRolePolicyDocument=TRUST)["Role"][
        "Arn"
    ]
    session = world.aws("sts").assume_role(RoleArn=arn, RoleSessionName="ann@example.com")["Credentials"]
    return arn, Keys(session["AccessKeyId"], session["SecretAccessKey"], session["SessionToken"])


def enter(world: World, principal: str, policy: str = "", namespaces: tuple[str, ...] = (), **entry: object) -> None:
    eks = world.aws("eks")
    eks.create_access_entry(clusterName=CLUSTER, principalArn=principal, **entry)
    if policy:
        scope = {"type": "namespace", "namespaces": list(namespaces)} if namespaces else {"type": "cluster"}
        eks.associate_access_policy(
            clusterName=CLUSTER, principalArn=principal, policyArn=f"{POLICY}{policy}", accessScope=scope
        )


def leave(world: World, principal: str) -> None:
    world.aws("eks").delete_access_entry(clusterName=CLUSTER, principalArn=principal)


def speaks(world: World, text: str) -> Client:
    return world.plane.client_as(Credentials(token=lambda: text))


def refused(client: Client, path: str = "/api/v1/namespaces") -> int:
    """The status with which the server refuses, 0 if it does not."""
    try:
        client.get(path)
    except ApiError as error:
        return error.status
    return 0


def who_am_i(client: Client) -> dict[str, object]:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", request)["status"]["userInfo"]


def test_without_an_entry_nobody_comes_in_with_one_they_do_and_without_it_no_longer(world: World, own: Keys) -> None:
    arn = "arn:aws:iam::123456789012:user/moto"
    client = speaks(world, token(own))
    assert refused(client) == 401
    enter(world, arn, "AmazonEKSClusterAdminPolicy")
    assert refused(client) == 0
    assert client.get("/api/v1/secrets")["kind"] == "SecretList"
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "made-by-a-caller"}})
    assert who_am_i(client)["username"] == arn
    leave(world, arn)
    # What the server remembers of a token, it forgets after ten seconds
    assert until(lambda: refused(client) == 401, PATIENCE)


def test_another_clusters_token_an_expired_one_and_a_forged_one_are_refused(world: World, own: Keys) -> None:
    arn = "arn:aws:iam::123456789012:user/moto"
    enter(world, arn, "AmazonEKSClusterAdminPolicy")
    try:
        assert refused(speaks(world, token(own))) == 0
        assert refused(speaks(world, token(own, cluster="another"))) == 401
        assert refused(speaks(world, token(own, age=timedelta(minutes=16)))) == 401
        forged = Keys(own.access_key, "not the secret key")
        assert refused(speaks(world, token(forged))) == 401
    finally:
        leave(world, arn)


def test_a_session_of_a_role_has_its_policy_in_its_namespaces_only(world: World, operator: tuple[str, Keys]) -> None:
    arn, keys = operator
    space = namespace(world.plane.client, "team-a")
    namespace(world.plane.client, "other")
    enter(world, arn, "AmazonEKSEditPolicy", ("team-*",))
    try:
        client = speaks(world, token(keys))
        about = {"name": "written", "namespace": space}
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about}
        assert until(lambda: client.apply(config_map), PATIENCE)  # the server hears of its bindings by a watch
        assert client.get(f"/api/v1/namespaces/{space}/pods")["kind"] == "PodList"
        assert refused(client, "/api/v1/namespaces/other/pods") == 403
        assert refused(client, "/api/v1/nodes") == 403
        assert refused(client, f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/roles") == 403
        assert str(who_am_i(client)["username"]).endswith(":assumed-role/operator/ann-example.com")
        # A namespace that is made later counts too, once the server asks again
        later = namespace(world.plane.client, "team-b")
        assert until(lambda: refused(client, f"/api/v1/namespaces/{later}/pods") == 0, PATIENCE)
    finally:
        leave(world, arn)


def may(client: Client, verb: str, what: str, space: str) -> bool:
    resource, _, part = what.partition("/")
    about = {"namespace": space, "verb": verb, "resource": resource, "subresource": part}
    request = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return client.request("POST", path, {**request, "spec": {"resourceAttributes": about}})["status"]["allowed"]


def test_whoever_operates_sandboxes_cannot_be_one_of_their_controllers(
    world: World, operator: tuple[str, Keys]
) -> None:
    arn, keys = operator
    space = namespace(world.plane.client, "sandbox-operated")
    enter(world, arn)
    for grant in GRANTS["operators"]:
        world.aws("eks").associate_access_policy(
            clusterName=CLUSTER, principalArn=arn, policyArn=f"{POLICY}{grant.policy}", accessScope=grant.scope
        )
    try:
        client = speaks(world, token(keys))
        assert until(lambda: may(client, "create", "pods", space), PATIENCE)
        assert may(client, "delete", "configmaps", space)
        assert not may(client, "create", "serviceaccounts/token", space)
        for name in (
            *(account_name.split(":")[2] for account_name in (EKS.sandbox_controller, EKS.service, EKS.provisioner)),
            "default",
        ):
            assert may(client, "get", "pods", name)
            assert not may(client, "get", "secrets", name)
            for verb, what in (
                ("impersonate", "serviceaccounts"),
                ("create", "serviceaccounts/token"),
                ("create", "pods"),
                ("create", "pods/exec"),
                ("create", "deployments"),
            ):
                assert not may(client, verb, what, name), (verb, what, name)
    finally:
        leave(world, arn)


def test_an_entrys_groups_are_bound_by_the_clusters_own_roles(world: World, operator: tuple[str, Keys]) -> None:
    arn, keys = operator
    enter(world, arn, kubernetesGroups=["node-readers"])
    try:
        client = speaks(world, token(keys))
        assert until(lambda: who_am_i(client)["groups"] == ["node-readers", "system:authenticated"], PATIENCE)
        assert refused(client, "/api/v1/nodes") == 403
        rbac = "rbac.authorization.k8s.io"
        rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
        about = {"name": "node-readers"}
        subjects = [{"apiGroup": rbac, "kind": "Group", "name": "node-readers"}]
        admin = world.plane.client
        admin.apply({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": about, "rules": rules})
        role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "node-readers"}
        binding = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": about}
        admin.apply({**binding, "roleRef": role, "subjects": subjects})
        assert until(lambda: refused(client, "/api/v1/nodes") == 0, PATIENCE)
    finally:
        leave(world, arn)


def test_the_admin_view_policy_reads_secrets_and_changes_nothing(world: World, operator: tuple[str, Keys]) -> None:
    arn, keys = operator
    enter(world, arn, "AmazonEKSAdminViewPolicy")
    try:
        client = speaks(world, token(keys))
        # Signed in the same second, it is the same token as another test's, which the server may remember
        assert until(lambda: refused(client, "/api/v1/secrets") == 0, PATIENCE)
        with pytest.raises(ApiError) as denied:
            client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "not-to-be"}})
        assert denied.value.status == 403
    finally:
        leave(world, arn)
