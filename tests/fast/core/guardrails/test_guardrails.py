"""Tests of the guardrails' documents without an API server: what it would refuse, skip or fail on."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.constraints_configmap import constraints
from agentenv.core.classes.plan import plans
from agentenv.core.guardrails import EKS, Policy, policies
from agentenv.core.guardrails.guardrail import CONSTRAINTS
from agentenv.core.guardrails.pods import priority_class
from agentenv.core.guardrails.principals import DEPLOYER, requested_by
from agentenv.core.guardrails.reference import guardrails_page
from tests.fast.config.stack_samples import sandbox, settings

SYSTEMS = ("fs-0123456789abcdef0", "fs-0fedcba9876543210")
POLICIES = policies(SYSTEMS)
# What the API server takes; a rule with more of them would be refused when it is written.
LONGEST_NAME, LONGEST_MESSAGE, MOST_CONDITIONS, MOST_VARIABLES = 253, 1024, 64, 100


def expressions(policy: Policy) -> list[str]:
    """All CEL of a policy."""
    spec = policy.document()["spec"]
    keys = ("variables", "matchConditions", "validations")
    return [row["expression"] for key in keys for row in spec.get(key, ())] + [
        row["valueExpression"] for row in spec["auditAnnotations"]
    ]


def test_policies_and_rules_have_unique_names() -> None:
    names = [policy.full_name for policy in POLICIES]
    assert len(set(names)) == len(names)
    for policy in POLICIES:
        ids = [rule.id for rule in policy.rules]
        assert ids
        assert len(set(ids)) == len(ids), policy.name
        assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+", id_) for id_ in ids)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_policy_fails_closed_denies_and_is_audited(policy: Policy) -> None:
    document = policy.document()
    assert len(document["metadata"]["name"]) <= LONGEST_NAME
    assert document["spec"]["failurePolicy"] == "Fail"
    assert {row["key"] for row in document["spec"]["auditAnnotations"]} == {"who", "what"}
    assert len(document["spec"].get("matchConditions", ())) <= MOST_CONDITIONS
    assert len(document["spec"].get("variables", ())) <= MOST_VARIABLES
    for row in document["spec"]["validations"]:
        assert row["message"].startswith("[")
        assert len(row["message"]) <= LONGEST_MESSAGE
    for binding in policy.bindings():
        assert binding["spec"]["policyName"] == document["metadata"]["name"]
        assert binding["spec"]["validationActions"] == ["Deny", "Audit"]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_expressions_handle_missing_fields_of_requests(policy: Policy) -> None:
    for cel in expressions(policy):
        assert "\n" not in cel
        assert cel.count("(") == cel.count(")"), cel
        # A collection that is deleted has no name, most requests have no subresource, the cluster has no namespace
        assert not re.search(r"request\.(subResource|name|namespace)\b", cel), cel
        if "oldObject." in cel and "CREATE" in policy.operations:
            assert "oldObject != null" in cel or "oldObject == null" in cel, cel


@pytest.mark.parametrize("policy", [row for row in POLICIES if row.by_class], ids=lambda policy: policy.name)
def test_without_parameters_creates_are_refused_and_updates_allowed(policy: Policy) -> None:
    values = {}
    for binding in policy.bindings():
        operations = {
            operation for rule in binding["spec"]["matchResources"]["resourceRules"] for operation in rule["operations"]
        }
        (operation,) = operations
        values[operation] = binding["spec"]["paramRef"]
    assert set(values) == policy.operations
    assert values["CREATE"] == {"name": CONSTRAINTS, "parameterNotFoundAction": "Deny"}
    assert values.get("UPDATE", values["CREATE"])["parameterNotFoundAction"] in {"Allow", "Deny"}
    if "UPDATE" in values:
        assert values["UPDATE"]["parameterNotFoundAction"] == "Allow"
    assert "DELETE" not in policy.operations, "a namespace that goes has no ConfigMap to read"
    assert policy.in_classes


def test_the_deletion_of_a_namespace_is_not_blocked() -> None:
    watching = {policy.name: policy for policy in POLICIES if "DELETE" in policy.operations}
    # The endings are about how something is deleted, and never about who does it: who ends a namespace leaves nothing.
    assert set(watching) == {"fences", "reach", "endings", "platform-pods"}
    assert list(watching["platform-pods"].when.values()) == [f"request.userInfo.username == '{EKS.service}'"]
    for rule in (*watching["fences"].rules, *watching["reach"].rules):
        assert "has(namespaceObject.metadata.deletionTimestamp)" in rule.holds
        assert all(user in rule.holds for user in EKS.collectors)
    (ending,) = watching["endings"].rules
    assert "userInfo" not in ending.holds


def test_rules_read_parameters_that_the_configmap_has() -> None:
    plan = plans(settings({"sandboxClasses": [sandbox()]}))[0]
    values = set(constraints(plan, "fs-1")["data"])
    keys_read = {
        key for policy in POLICIES for cel in expressions(policy) for key in re.findall(r"data\[\?'(\w+)'\]", cel)
    }
    assert keys_read <= values
    assert {"runtimeClassName", "uid", "images", "pools", "storageClasses", "seats"} <= keys_read


def test_only_volume_policies_name_file_systems() -> None:
    naming = [policy.name for policy in POLICIES if SYSTEMS[0] in json.dumps(policy.document())]
    assert naming == ["volumes", "storage-classes"]
    for policy in POLICIES:
        text = json.dumps(policy.document())
        assert (SYSTEMS[0] in text) == (SYSTEMS[1] in text)


def test_subresources_are_named_one_by_one() -> None:
    watched = {name for policy in POLICIES for watch in policy.watches for name in watch.resources}
    assert {
        "pods/status",
        "pods/ephemeralcontainers",
        "pods/resize",
        "pods/binding",
        "pods/exec",
        "namespaces/status",
        "namespaces/finalize",
        "sandboxwarmpools/scale",
        "deployments/scale",
        "serviceaccounts/token",
    } <= watched
    assert not any(name.endswith("/*") for name in watched)


def test_pod_rules_apply_to_all_three_kinds() -> None:
    by_name = {policy.name: policy for policy in POLICIES}
    ids = [[rule.id for rule in by_name[name].rules] for name in ("templates", "sandboxes", "pods")]
    # The server itself refuses a pod that is made with a debug container.
    assert ids[0] == ids[1] == [*ids[2], "pod-no-debug"]
    assert len(ids[2]) >= 15


@pytest.mark.parametrize("key", ["sandbox_controller", "service", "provisioner"])
def test_user_names_of_principals_can_be_overridden(key: str) -> None:
    hands = replace(EKS, **{key: "system:serviceaccount:mine:own"})
    texts = [json.dumps(policy.document()) for policy in policies(SYSTEMS, hands)]
    assert any("system:serviceaccount:mine:own" in text for text in texts)
    assert not any(f"'{getattr(EKS, key)}'" in text for text in texts)


def test_the_authorizer_is_checked_last() -> None:
    """It costs a third of what an expression may."""
    expression = requested_by("jane", groups=["team"], prefixes=["eks:"])
    assert expression.endswith(f"|| {DEPLOYER})")
    assert expression.count("||") == 3
    assert requested_by() == f"({DEPLOYER})"


def test_policies_match_namespaces_of_classes_and_cluster_scoped_objects() -> None:
    everywhere: dict[str, Any] = {}
    elsewhere = {"matchExpressions": [{"key": CLASS_LABEL, "operator": "DoesNotExist"}]}
    for policy in POLICIES:
        selector = policy.document()["spec"]["matchConstraints"]["namespaceSelector"]
        if policy.in_classes:
            assert selector == {"matchExpressions": [{"key": CLASS_LABEL, "operator": "Exists"}]}
        elif policy.elsewhere:
            assert policy.name in {"elsewhere", "platform-pods"}
            assert selector == elsewhere
        elif policy.within:
            namespaces = {"looking": "storage-metering", "emptying": "home-emptying", "emptying-jobs": "home-emptying"}
            assert selector == {"matchLabels": {"kubernetes.io/metadata.name": namespaces[policy.name]}}
        else:
            everywhere[policy.name] = selector
    assert set(everywhere) == {
        "bindings",
        "volumes",
        "volume-owners",
        "volume-records",
        "storage-classes",
        "namespaces",
    }
    assert all(selector == {} for selector in everywhere.values())


def test_sandboxes_have_the_default_priority() -> None:
    priority = priority_class()
    assert priority["metadata"]["name"] == "sandbox"
    assert priority["value"] == 0
    assert priority["globalDefault"] is False


def test_the_reference_has_every_policy_and_rule() -> None:
    page = guardrails_page()
    for policy in POLICIES:
        assert f"`{policy.full_name}`" in page
        assert all(f"| `{rule.id}` |" in page for rule in policy.rules)
    assert all(user in page for user in (EKS.sandbox_controller, EKS.service, EKS.provisioner))
