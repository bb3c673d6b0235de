"""The identity of a caller in the cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agentenv.rehearsal.controlplane.auth import access_entries
from agentenv.rehearsal.controlplane.auth.access_entries import Association, Principal, principal

ROLE = "arn:aws:iam::123456789012:role/teams/platform/operator"
SESSION = "arn:aws:sts::123456789012:assumed-role/operator/ann@example.com"


def known(arn: str) -> Principal:
    found = principal(arn)
    assert found is not None
    return found


def test_session_maps_to_its_role_without_the_path() -> None:
    assert known(SESSION).same(known(ROLE))
    assert known(SESSION).session == "ann@example.com"


@pytest.mark.parametrize(
    "other",
    [
        "arn:aws:iam::123456789012:role/teams/operator2",
        "arn:aws:iam::210987654321:role/teams/platform/operator",
        "arn:aws:iam::123456789012:user/operator",
    ],
)
def test_other_principals_do_not_match(other: str) -> None:
    assert not known(SESSION).same(known(other))


def test_invalid_arn_is_no_principal() -> None:
    assert principal("arn:aws:eks:us-east-1:123456789012:cluster/x") is None
    assert principal("arn:aws:iam::12:role/x") is None


def test_the_user_name_holds_the_session_as_eks_spells_it() -> None:
    entry = {"username": "arn:aws:sts::123456789012:assumed-role/operator/{{SessionName}}", "principalArn": ROLE}
    user, groups = access_entries.identity(entry, known(SESSION), [])
    assert user == "arn:aws:sts::123456789012:assumed-role/operator/ann-example.com"
    assert groups == []
    assert (
        access_entries.identity({**entry, "username": "{{SessionNameRaw}}"}, known(SESSION), [])[0] == "ann@example.com"
    )


def test_an_entry_cannot_name_the_groups_that_stand_for_policies() -> None:
    stands = Association("AmazonEKSClusterAdminPolicy").groups()
    entry = {"username": "u", "principalArn": ROLE, "kubernetesGroups": ["readers", *stands]}
    view = Association("AmazonEKSViewPolicy", ("team-a", "dev-*"))
    assert access_entries.identity(entry, known(SESSION), [view])[1] == ["readers", *view.groups()]


def test_a_policy_over_namespaces_is_bound_in_those_that_match_and_nowhere_else() -> None:
    view = Association("AmazonEKSViewPolicy", ("team-a", "dev-*"))
    everywhere = Association("AmazonEKSAdminViewPolicy")
    created = access_entries.bindings([view, everywhere], ["team-a", "team-b", "dev-1", "dev-2"])
    assert sorted((row["kind"], row["metadata"]["namespace"]) for row in created) == [
        ("RoleBinding", "dev-1"),
        ("RoleBinding", "dev-2"),
        ("RoleBinding", "team-a"),
    ]
    assert {row["subjects"][0]["name"] for row in created} == set(view.groups())
    assert {row["roleRef"]["name"] for row in created} == {"rehearsal:access:AmazonEKSViewPolicy"}


def test_a_policy_that_is_not_simulated_binds_nothing() -> None:
    assert access_entries.bindings([Association("AmazonEKSAutoNodePolicy", ("a",))], ["a"]) == []


def test_entries_and_policies_take_effect_later() -> None:
    created = datetime(2026, 11, 1, tzinfo=UTC)
    entry = {"principalArn": ROLE, "createdAt": created}
    policy = {"policyArn": f"{access_entries.POLICY_ARN}AmazonEKSViewPolicy", "accessScope": {"type": "cluster"}}
    old, new = ({**policy, "associatedAt": at} for at in (created, created + timedelta(seconds=4)))

    def at(seconds: int) -> tuple[bool, int]:
        now = created + timedelta(seconds=seconds)
        in_effect = access_entries.policies_in_effect([old, new], now)
        return access_entries.entry_in_effect(entry, now), len(in_effect)

    # Not authenticated, authenticated without rights, and one policy after the other.
    assert [at(seconds) for seconds in (0, 2, 3, 5, 9)] == [(False, 0), (False, 0), (True, 0), (True, 1), (True, 2)]


def test_only_the_policy_for_the_whole_cluster_reaches_custom_resources() -> None:
    part = {"view": [{"verbs": ["get"]}], "edit": [{"verbs": ["create"]}], "admin": [{"verbs": ["bind"]}]}
    roles = {row["metadata"]["name"]: row for row in access_entries.cluster_roles(part) if row["kind"] == "ClusterRole"}
    assert set(roles) == {f"rehearsal:access:{policy}" for policy in access_entries.POLICIES}
    assert roles["rehearsal:access:AmazonEKSEditPolicy"]["rules"] == [*part["view"], *part["edit"]]
    assert roles["rehearsal:access:AmazonEKSViewPolicy"]["rules"] == part["view"]
    assert {"*"} == set(roles["rehearsal:access:AmazonEKSClusterAdminPolicy"]["rules"][0]["verbs"])


def test_edit_policy_omits_rights_that_eks_does_not_grant() -> None:
    core = {"apiGroups": [""], "verbs": ["create"]}
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get"]}
    edit = [
        {**core, "resources": ["pods", "pods/eviction", "pods/exec"]},
        {**core, "resources": ["serviceaccounts/token"]},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]},
        leases,
    ]
    created = access_entries.cluster_roles({"view": [], "edit": edit, "admin": [leases]})
    roles = {row["metadata"]["name"]: row["rules"] for row in created if row["kind"] == "ClusterRole"}
    assert roles["rehearsal:access:AmazonEKSEditPolicy"] == [
        {**core, "resources": ["pods", "pods/exec"]},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]},
    ]
