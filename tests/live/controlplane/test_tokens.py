"""AWS callers: principals with an access entry are admitted with its rights, and no others."""

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
from tests.live.conftest import CLUSTER, REGION, LiveCluster
from tests.live.controlplane.objects import TIMEOUT, create_namespace

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
def own(live: LiveCluster) -> Keys:
    """The keys of the run, whose caller is moto's default IAM user."""
    live.aws("iam").create_user(UserName="moto")
    return Keys(live.environment["AWS_ACCESS_KEY_ID"], live.environment["AWS_SECRET_ACCESS_KEY"])


@pytest.fixture(scope="module")
def operator(live: LiveCluster) -> tuple[str, Keys]:
    """A role, and the keys of its session."""
    arn = live.aws("iam").create_role(Path="/teams/", RoleName="operator", AssumeRolePolicyDocument=TRUST)["Role"][
        "Arn"
    ]
    session = live.aws("sts").assume_role(RoleArn=arn, RoleSessionName="ann@example.com")["Credentials"]
    return arn, Keys(session["AccessKeyId"], session["SecretAccessKey"], session["SessionToken"])


def add_entry(
    live: LiveCluster, principal: str, policy: str = "", namespaces: tuple[str, ...] = (), **entry: object
) -> None:
    eks = live.aws("eks")
    eks.create_access_entry(clusterName=CLUSTER, principalArn=principal, **entry)
    if policy:
        scope = {"type": "namespace", "namespaces": list(namespaces)} if namespaces else {"type": "cluster"}
        eks.associate_access_policy(
            clusterName=CLUSTER, principalArn=principal, policyArn=f"{POLICY}{policy}", accessScope=scope
        )


def remove_entry(live: LiveCluster, principal: str) -> None:
    live.aws("eks").delete_access_entry(clusterName=CLUSTER, principalArn=principal)


def client_with_token(live: LiveCluster, text: str) -> Client:
    return live.plane.client_as(Credentials(token=lambda: text))


def refused(client: Client, path: str = "/api/v1/namespaces") -> int:
    """Return the status of a refusal, 0 without one."""
    try:
        client.get(path)
    except ApiError as error:
        return error.status
    return 0


def who_am_i(client: Client) -> dict[str, object]:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", request)["status"]["userInfo"]


def test_principal_is_admitted_while_it_has_an_access_entry(live: LiveCluster, own: Keys) -> None:
    arn = "arn:aws:iam::123456789012:user/moto"
    client = client_with_token(live, token(own))
    assert refused(client) == 401
    add_entry(live, arn, "AmazonEKSClusterAdminPolicy")
    assert until(lambda: refused(client) == 0, TIMEOUT)
    assert client.get("/api/v1/secrets")["kind"] == "SecretList"
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "made-by-a-caller"}})
    assert who_am_i(client)["username"] == arn
    remove_entry(live, arn)
    # The server caches a token for ten seconds
    assert until(lambda: refused(client) == 401, TIMEOUT)


def test_foreign_expired_and_forged_tokens_are_refused(live: LiveCluster, own: Keys) -> None:
    arn = "arn:aws:iam::123456789012:user/moto"
    add_entry(live, arn, "AmazonEKSClusterAdminPolicy")
    try:
        assert until(lambda: refused(client_with_token(live, token(own))) == 0, TIMEOUT, every=1)
        assert refused(client_with_token(live, token(own, cluster="another"))) == 401
        assert refused(client_with_token(live, token(own, age=timedelta(minutes=16)))) == 401
        forged = Keys(own.access_key, "not the secret key")
        assert refused(client_with_token(live, token(forged))) == 401
    finally:
        remove_entry(live, arn)


def test_role_session_has_its_policy_in_its_namespaces_only(live: LiveCluster, operator: tuple[str, Keys]) -> None:
    arn, keys = operator
    namespace = create_namespace(live.plane.client, "team-a")
    create_namespace(live.plane.client, "other")
    add_entry(live, arn, "AmazonEKSEditPolicy", ("team-*",))
    try:
        client = client_with_token(live, token(keys))
        about = {"name": "written", "namespace": namespace}
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about}
        assert until(lambda: client.apply(config_map), TIMEOUT)  # the server learns of bindings by a watch
        assert client.get(f"/api/v1/namespaces/{namespace}/pods")["kind"] == "PodList"
        assert refused(client, "/api/v1/namespaces/other/pods") == 403
        assert refused(client, "/api/v1/nodes") == 403
        assert refused(client, f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles") == 403
        assert str(who_am_i(client)["username"]).endswith(":assumed-role/operator/ann-example.com")
        # A namespace that is created later matches, too, once the cached review expires
        later = create_namespace(live.plane.client, "team-b")
        assert until(lambda: refused(client, f"/api/v1/namespaces/{later}/pods") == 0, TIMEOUT)
    finally:
        remove_entry(live, arn)


def may(client: Client, verb: str, what: str, namespace: str) -> bool:
    resource, _, part = what.partition("/")
    about = {"namespace": namespace, "verb": verb, "resource": resource, "subresource": part}
    request = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return client.request("POST", path, {**request, "spec": {"resourceAttributes": about}})["status"]["allowed"]


def test_operators_cannot_act_as_the_controllers(live: LiveCluster, operator: tuple[str, Keys]) -> None:
    arn, keys = operator
    namespace = create_namespace(live.plane.client, "sandbox-operated")
    add_entry(live, arn)
    for grant in GRANTS["operators"]:
        live.aws("eks").associate_access_policy(
            clusterName=CLUSTER, principalArn=arn, policyArn=f"{POLICY}{grant.policy}", accessScope=grant.scope
        )
    try:
        client = client_with_token(live, token(keys))
        assert until(lambda: may(client, "create", "pods", namespace), TIMEOUT)
        assert may(client, "delete", "configmaps", namespace)
        assert not may(client, "create", "serviceaccounts/token", namespace)
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
        remove_entry(live, arn)


def test_groups_of_an_access_entry_are_bound_by_cluster_roles(live: LiveCluster, operator: tuple[str, Keys]) -> None:
    arn, keys = operator
    add_entry(live, arn, kubernetesGroups=["node-readers"])
    try:
        client = client_with_token(live, token(keys))
        assert until(lambda: who_am_i(client)["groups"] == ["node-readers", "system:authenticated"], TIMEOUT)
        assert refused(client, "/api/v1/nodes") == 403
        rbac = "rbac.authorization.k8s.io"
        rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
        about = {"name": "node-readers"}
        subjects = [{"apiGroup": rbac, "kind": "Group", "name": "node-readers"}]
        admin = live.plane.client
        admin.apply({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": about, "rules": rules})
        role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "node-readers"}
        binding = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": about}
        admin.apply({**binding, "roleRef": role, "subjects": subjects})
        assert until(lambda: refused(client, "/api/v1/nodes") == 0, TIMEOUT)
    finally:
        remove_entry(live, arn)


def test_admin_view_policy_reads_secrets_and_changes_nothing(live: LiveCluster, operator: tuple[str, Keys]) -> None:
    arn, keys = operator
    add_entry(live, arn, "AmazonEKSAdminViewPolicy")
    try:
        client = client_with_token(live, token(keys))
        # A token of the same second equals another test's, which the server may have cached
        assert until(lambda: refused(client, "/api/v1/secrets") == 0, TIMEOUT)
        with pytest.raises(ApiError) as denied:
            client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "not-to-be"}})
        assert denied.value.status == 403
    finally:
        remove_entry(live, arn)
