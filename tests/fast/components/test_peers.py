"""Defects of other systems for the same purpose, each with a test that it cannot happen here.

Two of their shortcomings have their tests elsewhere: whether the API server takes every field of what is written, which
only a real one can say (tests/live/controlplane/test_documents_taken.py), and what a review or an estimate says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from agentenv.config.constraints import CONSTRAINTS
from agentenv.core.capabilities.from_settings import cluster_facts, egress_of
from agentenv.core.capabilities.policies.class_security_groups import class_groups
from agentenv.core.capabilities.policies.effective_policy import effective
from agentenv.core.capabilities.policies.selectors import matches
from agentenv.core.capabilities.sets.reach import EVERYTHING
from agentenv.core.classes.plan import plans
from agentenv.core.values.posix_ids import CLASS_IDS, SEAT_IDS
from agentenv.core.workspaces.claims import claim
from agentenv.core.workspaces.seats import conflicting_seats, retained_seats, sandbox, seat_plans, volume
from tests.fast.components.graph import registered
from tests.fast.components.shapes import cluster, storage
from tests.fast.config.stack_samples import IMAGE, mistakes, settings
from tests.fast.config.stack_samples import sandbox as on_nodes
from tests.fast.core.classes.class_samples import OBJECTS, PLANS, SETTINGS, objects

Document = dict[str, Any]


def pods(name: str) -> list[tuple[Document, Document]]:
    """The labels and the spec of everything that runs in a class: warm, claimed, of a task, and declared seats."""
    found: list[tuple[Document, Document]] = []
    for template, pool in zip(OBJECTS[name].templates, OBJECTS[name].pools, strict=True):
        pod = template["spec"]["podTemplate"]
        labels = pod["metadata"]["labels"]
        taken = claim(name, pool["metadata"]["name"], "c", owner="u-3", workspace="w", task="t")
        found += [
            (labels, pod["spec"]),
            ({**labels, **taken["spec"]["additionalPodMetadata"]["labels"]}, pod["spec"]),
        ]
    for seat in seat_plans(SETTINGS):
        if seat.sandbox_class == name:
            pod = sandbox(seat, OBJECTS[name].templates[0]["spec"])["spec"]["podTemplate"]
            found.append((pod["metadata"]["labels"], pod["spec"]))
    return found


def every_pod() -> list[tuple[str, Document]]:
    """The labels of everything that runs in any class, with the class."""
    return [(name, labels) for name in PLANS for labels, _ in pods(name)]


# "its NetworkPolicy selects nothing"


@pytest.mark.parametrize("name", [name for name, plan in PLANS.items() if not plan.on_fargate])
def test_the_one_policy_of_a_class_selects_every_pod_of_it_and_of_no_other(name: str) -> None:
    policy = OBJECTS[name].network_policy
    assert policy is not None
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    space = f"sandbox-{name}"
    for other, labels in every_pod():
        assert matches(policy["spec"]["podSelector"], labels) is (other == name)
    # What the policies of all classes together let a pod of this one do is what it was granted, and no more.
    every = [
        class_objects.network_policy for class_objects in OBJECTS.values() if class_objects.network_policy is not None
    ]
    granted = egress_of(PLANS[name].settings, cluster_facts(SETTINGS, api=())).at(frozenset()).least
    for labels, _ in pods(name):
        found = effective(every, space, labels)
        assert found.least.same_as(granted)
        assert found.most.same_as(granted)
        assert not EVERYTHING.same_as(found.most)


def test_no_second_policy_comes_from_upstream_to_widen_it() -> None:
    # Policies only ever add: the one that the controller would make is open to the internet.
    for class_objects in OBJECTS.values():
        assert {template["spec"]["networkPolicyManagement"] for template in class_objects.templates} == {"Unmanaged"}
        kinds = [document["kind"] for document in class_objects.documents()]
        assert kinds.count("NetworkPolicy") + kinds.count("SecurityGroupPolicy") == 1


def test_what_enforces_policies_is_switched_on_in_strict_mode() -> None:
    graph = registered(cluster)
    (inputs,) = [addon.inputs for addon in graph.of("Addon") if addon.inputs["addonName"] == "vpc-cni"]
    values = json.loads(inputs["configurationValues"])
    assert values["enableNetworkPolicy"] == "true"
    assert values["env"]["NETWORK_POLICY_ENFORCING_MODE"] == "strict"


# "nothing relied on under Fargate"


def test_on_fargate_groups_of_the_class_hold_its_pods_and_no_policy_is_relied_on() -> None:
    class_objects = OBJECTS["batch"]
    assert class_objects.network_policy is None
    assert class_objects.group_policy is not None
    for other, labels in every_pod():
        assert matches(class_objects.group_policy["spec"]["podSelector"], labels) is (other == "batch")
    assert class_objects.group_policy["spec"]["securityGroups"]["groupIds"] == ["sg-0"]
    assert [class_group.name for class_group in class_groups(SETTINGS)] == ["batch"]


# "every user is uid 1000"


def test_every_class_and_every_seat_has_ids_of_its_own() -> None:
    holders: dict[int, set[str]] = {}
    for name in PLANS:
        for labels, spec in pods(name):
            security = spec["securityContext"]
            assert security["runAsUser"] == security["runAsGroup"]
            assert security["runAsUser"] in CLASS_IDS or security["runAsUser"] in SEAT_IDS
            seat = labels.get("sandbox.users.io/workspace")
            holders.setdefault(security["runAsUser"], set()).add(
                f"seat {seat}" if security["runAsUser"] in SEAT_IDS else f"class {name}"
            )
            # No container takes another one for itself.
            containers = [*spec.get("initContainers", []), *spec["containers"]]
            assert all("runAsUser" not in container["securityContext"] for container in containers)
    assert all(len(mine) == 1 for mine in holders.values())
    assert len(holders) == len(PLANS) + len(SETTINGS.workspaces)


def test_the_files_of_a_class_are_its_own_ids_in_a_folder_of_its_own() -> None:
    parameters = {
        name: [storage_class["parameters"] for storage_class in class_objects.storage_classes]
        for name, class_objects in OBJECTS.items()
        if class_objects.storage_classes
    }
    for name, each in parameters.items():
        for shard in each:
            assert shard["uid"] == shard["gid"] == str(PLANS[name].uid)
            assert int(shard["directoryPerms"], 8) & 0o077 == 0
            assert (shard["ensureUniqueDirectory"], shard["reuseAccessPoint"]) == ("true", "false")
    folders = [f"{each[0]['basePath']}/" for each in parameters.values()]
    assert not any(folder.startswith(other) for folder, other in permutations(folders, 2))


# "destroy orphans data"


def test_files_of_unclaimed_sandboxes_are_deleted_and_retained_files_are_found() -> None:
    for class_objects in OBJECTS.values():
        assert all(storage_class["reclaimPolicy"] == "Delete" for storage_class in class_objects.storage_classes)
    for seat in seat_plans(SETTINGS):
        assert volume(seat, "fs-0::fsap-0")["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        arn = f"arn:aws:elasticfilesystem:us-east-1:111122223333:access-point/fsap-{seat.name}"
        (retained,) = retained_seats({arn: seat.tags})
        assert (retained.seat, retained.user) == (seat.name, seat.user)
        assert conflicting_seats([seat], [retained]) == []
        assert conflicting_seats([replace(seat, user="u-9")], [retained])


# "a ceiling of about 85-100 tenants", by what AWS gives an account only so many of


def test_what_a_stack_registers_does_not_grow_with_its_users() -> None:
    # No target group, association, role or access point of a user is in it: a claim makes those of its own, if any.
    roomy = {"capacity": {"limits": {"cpu": "2000", "memory": "4Ti"}}}
    few, many = (
        [(document["kind"], document["metadata"]["name"]) for document in objects(plan).documents()]
        for size in (2, 4_000)
        for plan in plans(settings({**roomy, "sandboxClasses": [on_nodes(pool={"size": size}, maxSandboxes=4_000)]}))
    )
    assert few == many


def test_more_sandboxes_than_access_points_are_refused_before_creation() -> None:
    refused = mistakes({"sandboxClasses": [on_nodes(pool={"size": 10_001})]})
    assert any("access points" in mistake.hint for mistake in refused)


# "a warm pool and own storage as infrastructure code", which none of them has


def test_every_warm_sandbox_is_born_with_storage_that_a_claim_cannot_choose() -> None:
    class_objects = OBJECTS["standard"]
    (template,) = class_objects.templates
    (pool,) = class_objects.pools
    assert pool["spec"]["replicas"] == 3
    assert pool["spec"]["sandboxTemplateRef"]["name"] == template["metadata"]["name"]
    (home,) = template["spec"]["volumeClaimTemplates"]
    assert home["spec"]["storageClassName"] in {
        storage_class["metadata"]["name"] for storage_class in class_objects.storage_classes
    }
    assert template["spec"]["volumeClaimTemplatesPolicy"] == "Disallowed"
    (container,) = template["spec"]["podTemplate"]["spec"]["containers"]
    assert {"name": "home", "mountPath": "/home/agent", "subPath": "current"} in container["volumeMounts"]
    # A claim that brought variables or volumes would start cold.
    assert not {"env", "volumeClaimTemplates"} & set(claim("standard", "p", "c", owner="u", workspace="w")["spec"])


# "EFS that resists bypass", which none of them has


def test_files_are_reached_by_an_access_point_over_tls_and_never_as_root() -> None:
    graph = registered(lambda: storage(clients=["arn:aws:iam::111122223333:role/nodes"]))
    statements: list[Mapping[str, Any]] = json.loads(graph.resource("FileSystemPolicy").inputs["policy"])["Statement"]
    allowed = [statement for statement in statements if statement["Effect"] == "Allow"]
    for statement in allowed:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        assert set(actions) <= {"elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"}
        assert "elasticfilesystem:AccessPointArn" in json.dumps(statement["Condition"])
    denied = [json.dumps(statement) for statement in statements if statement["Effect"] == "Deny"]
    assert any('"aws:SecureTransport": "false"' in statement for statement in denied)


# "Fargate that works: its limits as typed refusals", which none of them has


def test_each_limit_of_fargate_is_a_refusal_of_its_own() -> None:
    held = {row.id.removeprefix("fargate-") for row in CONSTRAINTS if row.id.startswith("fargate-")}
    assert held >= {
        "runtime-class",
        "network-policy",
        "dynamic-storage",
        "gpu",
        "spot",
        "arm64",
        "size",
        "pod-identity",
    }


# "trust tiers with per-tier constraints", which none of them has


def test_weakest_tier_needs_an_explicit_setting_and_vetted_callers() -> None:
    assert SETTINGS.sandbox_classes[0].tier == "standard"
    assert mistakes({"sandboxClasses": [on_nodes(tier="verifed")]})
    assert mistakes({"sandboxClasses": [on_nodes(tier="verified")]})
    assert {plan.wall.runtime_class if plan.wall else "a machine of its own" for plan in PLANS.values()} == {
        None,
        "gvisor",
        "kata",
        "a machine of its own",
    }


# "child within parent, at preview", which none of them has


def test_a_child_that_may_do_more_than_its_parent_never_reaches_a_preview() -> None:
    child = on_nodes("child", parent="parent", capabilities=["web"], image=IMAGE)
    (mistake,) = mistakes({"sandboxClasses": [on_nodes("parent"), child]})
    assert "which its parent may not" in mistake.found
