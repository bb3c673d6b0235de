"""Tests of the namespace of a class: its sandboxes fit the quota and limits, and it has its labels."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from agentenv.core.classes.names import PARENT
from agentenv.core.classes.namespace import namespace_document
from agentenv.core.classes.objects import ClassObjects
from agentenv.core.classes.plan import ClassPlan, plans
from agentenv.core.classes.pools.sizes import warm_members
from agentenv.core.values.quantities import Quantity
from tests.fast.config.stack_samples import OTHER_IMAGE, VETTED, fargate, sandbox, settings
from tests.fast.core.classes.strategies import FEW, created, objects_of, plan_of, planned

Object = dict[str, Any]
Amounts = dict[str, Decimal]


def value(text: str) -> Decimal:
    return Quantity.parse(text).value


def effective(template: Object, part: str) -> Amounts:
    """Return a pod's effective resources: the sum of its containers, or its largest init container if that is more."""
    spec = template["spec"]["podTemplate"]["spec"]
    found: Amounts = {}
    for container in spec["containers"]:
        for name, text in container["resources"][part].items():
            found[name] = found.get(name, Decimal(0)) + value(text)
    for container in spec.get("initContainers", []):
        for name, text in container["resources"][part].items():
            found[name] = max(found.get(name, Decimal(0)), value(text))
    return found


def with_overhead(amounts: Amounts, plan: ClassPlan) -> Amounts:
    over = {} if plan.wall is None else plan.wall.overhead
    return {name: amount + value(over.get(name, "0")) for name, amount in amounts.items()}


def refused_by_limits(objects: ClassObjects, plan: ClassPlan) -> list[str]:
    """Return the violations that the LimitRanger would refuse."""
    rows = {row["type"]: row for row in objects.limits["spec"]["limits"]}
    found: list[str] = []
    for template in objects.templates:
        spec = template["spec"]["podTemplate"]["spec"]
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            for name, most in rows["Container"]["max"].items():
                limit = container["resources"]["limits"].get(name)
                if limit is None or value(limit) > value(most):
                    found.append(f"{container['name']}: {name} {limit} over {most}")
        for name, most in rows["Pod"]["max"].items():
            whole = with_overhead(effective(template, "limits"), plan)
            if whole[name] > value(most):
                found.append(f"pod: {name} {whole[name]} over {most}")
        homes = [
            claim_template["spec"]["resources"]["requests"]
            for claim_template in template["spec"].get("volumeClaimTemplates", [])
        ]
        largest = rows.get("PersistentVolumeClaim", {}).get("max", {"storage": "0"})
        found += [f"home: {home}" for home in homes if value(home["storage"]) > value(largest["storage"])]
    return found


@FEW
@given(planned())
def test_sandboxes_of_a_class_fit_its_limits(plan: ClassPlan) -> None:
    objects = objects_of(plan)
    assert refused_by_limits(objects, plan) == []
    row = objects.limits["spec"]["limits"][0]
    for name, most in row["max"].items():
        assert value(row["defaultRequest"][name]) <= value(row["default"][name]) <= value(most)


@FEW
@given(planned())
def test_the_quota_covers_releases_and_their_replacements(plan: ClassPlan) -> None:
    objects = objects_of(plan)
    hard = objects.quota["spec"]["hard"]
    # Each release's pool at its largest, twice: the new one fills before the old one goes.
    there = warm_members(plan.settings.pool) * len(objects.releases) * 2
    assert there < int(hard["pods"])
    for part in ("requests", "limits"):
        each = with_overhead(effective(objects.templates[0], part), plan)
        for name, amount in each.items():
            if (part, name) == ("limits", "nvidia.com/gpu"):
                continue
            assert amount * int(hard["pods"]) <= value(hard[f"{part}.{name}"]), name
    claims = objects.templates[0]["spec"].get("volumeClaimTemplates", [])
    assert int(hard["persistentvolumeclaims"]) >= len(claims) * int(hard["pods"])
    each_claim = sum(value(claim["spec"]["resources"]["requests"]["storage"]) for claim in claims)
    assert value(hard["requests.storage"]) >= each_claim * int(hard["pods"])


def test_the_gate_fits_a_class_with_less_resources() -> None:
    plan = plan_of(sandbox(resources={"cpu": "1m", "memory": "1Mi", "ephemeral": "1Mi"}))
    objects = objects_of(plan)
    assert plan.gate is not None
    assert refused_by_limits(objects, plan) == []
    assert objects.quota["spec"]["hard"]["requests.cpu"] == "252m"  # its own and the wall's 20m, twelve times


def test_the_quota_counts_claimed_sandboxes_overhead_seats_and_swarms() -> None:
    settings_ = sandbox(pool={"size": 2}, maxSandboxes=20, resources={"cpu": "100m", "memory": "100Mi"})
    seat = {"name": "desk", "class": "standard", "user": "u-1", "size": "7Gi"}
    hard = created(settings_).quota["spec"]["hard"]
    assert hard["pods"] == "22"  # twenty, and two of the release that is on its way out
    assert hard["requests.cpu"] == "2640m"  # gVisor takes 20m of each
    assert hard["requests.memory"] == f"{22 * 148}Mi"
    assert (hard["persistentvolumeclaims"], hard["requests.storage"]) == ("22", "110Gi")
    assert hard["services"] == "0"
    seated = created(settings_, workspaces=[seat]).quota["spec"]["hard"]
    assert (seated["pods"], seated["persistentvolumeclaims"], seated["requests.storage"]) == ("23", "23", "117Gi")
    shared = created({**settings_, "storage": {"kind": "shared"}}).quota["spec"]["hard"]
    assert (shared["pods"], shared["persistentvolumeclaims"]) == ("22", "44")
    more = created({**settings_, "releases": [{"image": OTHER_IMAGE}]}).quota["spec"]["hard"]
    assert more["pods"] == "24"


def test_the_quota_and_limits_admit_the_largest_size_and_templates_have_the_smallest() -> None:
    small = sandbox(pool={"size": 2}, maxSandboxes=20, resources={"cpu": "100m", "memory": "100Mi"})
    sizes = {"medium": {"cpu": "200m", "memory": "200Mi"}, "large": {"cpu": "1", "memory": "1Gi"}}
    plain, sized = created(small), created({**small, "sizes": sizes})
    assert sized.templates == plain.templates  # no release has another hash
    hard = sized.quota["spec"]["hard"]
    assert (hard["pods"], hard["requests.cpu"], hard["limits.cpu"]) == ("22", "22440m", "22440m")
    container, pod = sized.limits["spec"]["limits"][:2]
    assert (container["max"]["cpu"], container["max"]["memory"], pod["max"]["cpu"]) == ("1", "1Gi", "1020m")
    assert (container["default"]["cpu"], container["defaultRequest"]["memory"]) == ("100m", "100Mi")


def test_a_seat_larger_than_homes_fits_the_limits() -> None:
    seat = {"name": "desk", "class": "standard", "user": "u-1", "size": "70Gi"}
    rows = created(sandbox(), workspaces=[seat]).limits["spec"]["limits"]
    assert {"type": "PersistentVolumeClaim", "max": {"storage": "70Gi"}} in rows


def test_gpus_are_in_the_quota_and_have_no_default() -> None:
    objects = created(sandbox(**VETTED, gpu=2, maxSandboxes=3, pool={"size": 1}), capacity={"gpu": {"limit": 8}})
    hard = objects.quota["spec"]["hard"]
    assert hard["requests.nvidia.com/gpu"] == "8"
    # Kubernetes takes a quota of requests alone where the two are one.
    assert "limits.nvidia.com/gpu" not in hard
    # A container that has to ask for some of it would get it: the gate too, for nothing.
    assert "nvidia.com/gpu" not in json.dumps(objects.limits)


def test_a_class_with_a_cold_pool_has_quota_for_claims() -> None:
    assert created(fargate(pool={"size": 0})).quota["spec"]["hard"]["pods"] == "10"


@pytest.mark.parametrize("version", ["1.34", "1.36"])
def test_a_namespace_enforces_the_restricted_standard_of_its_version(version: str) -> None:
    about = created(sandbox(), cluster={"version": version}).namespace["metadata"]
    assert about["name"] == "sandbox-standard"
    for mode in ("enforce", "audit", "warn"):
        assert about["labels"][f"pod-security.kubernetes.io/{mode}"] == "restricted"
        assert about["labels"][f"pod-security.kubernetes.io/{mode}-version"] == f"v{version}"


def test_all_objects_have_owner_labels() -> None:
    owner = {"owner": "Team A / platform@example.com " + "x" * 60, "costCenter": "cc-1"}
    objects = created(sandbox(pool={"schedules": [{"start": "08:00", "end": "18:00", "size": 1}]}), cost=owner)
    for document in objects.documents():
        labels = document["metadata"]["labels"]
        assert labels["sandbox.users.io/environment"] == "dev"
        assert labels["sandbox.users.io/cost-center"] == "cc-1"
        assert labels["sandbox.users.io/owner"].startswith("Team-A---platform-example.com-xxx")
        assert all(len(text) <= 63 for text in labels.values())


def test_the_namespace_has_who_may_claim() -> None:
    who = {"roles": ["operator"], "tokens": [{"name": "groups", "value": "red"}]}
    objects = created(sandbox(claimableBy=who))
    annotation = objects.namespace["metadata"]["annotations"]["sandbox.users.io/claimable-by"]
    assert json.loads(annotation) == who
    assert objects.constraints["data"]["claimableBy"] == annotation


def test_a_service_account_may_have_a_role_and_never_mounts_a_token() -> None:
    plain = created(sandbox()).account
    assert plain["automountServiceAccountToken"] is False
    assert "annotations" not in plain["metadata"]


@FEW
@given(planned())
def test_all_objects_are_in_the_namespace_with_unique_names(plan: ClassPlan) -> None:
    documents = objects_of(plan).documents()
    seen = [
        (document["kind"], document["metadata"].get("namespace"), document["metadata"]["name"])
        for document in documents
    ]
    assert len(set(seen)) == len(seen)
    elsewhere = {"Namespace", "StorageClass"}
    for document in documents:
        space = document["metadata"].get("namespace")
        if document["kind"] in elsewhere:
            assert space is None
        elif document["kind"] == "CronJob" or (document["kind"], document["metadata"]["name"]) == (
            "ServiceAccount",
            plan.name,
        ):
            assert space == "sandbox-schedules"
        else:
            assert space == f"sandbox-{plan.name}"


def test_a_class_has_its_parent_as_annotation() -> None:
    sections = {"sandboxClasses": [sandbox(), sandbox("reviewer", parent="standard")]}
    parent, child = (namespace_document(plan)["metadata"]["annotations"] for plan in plans(settings(sections)))
    assert PARENT not in parent
    assert child[PARENT] == "standard"
