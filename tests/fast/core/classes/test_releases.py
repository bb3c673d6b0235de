"""Tests of releases: named by the hash of their template."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.classes.plan import ClassPlan
from agentenv.core.classes.pools.sizes import divide_members, pool_choice
from agentenv.core.classes.releases import releases_of
from agentenv.core.classes.template import release_hash, template_spec
from tests.fast.config.stack_samples import IMAGE, OTHER_IMAGE, VETTED, fargate, sandbox
from tests.fast.core.classes.strategies import FEW, class_settings, created, objects_of, plan_of, planned

Object = dict[str, Any]
NODES: Object = {
    "families": ["m8g", "m7i", "m8gd", "m6id"],
    "nestedFamilies": ["m8i", "i4i-metal"],
    "gpu": {"limit": 8},
}

# What may change about a class, and whether it is a change of its template.
CHANGES: list[tuple[Object, bool]] = [
    ({"pool": {"size": 7}}, False),
    ({"pool": {"peakClaimsPerHour": 60}}, False),
    ({"pool": {"schedules": [{"start": "08:00", "end": "18:00", "size": 4}]}}, False),
    ({"maxSandboxes": 500}, False),
    ({"claimableBy": {"roles": ["admin"]}}, False),
    ({"modes": ["agent"]}, False),
    ({"suspendAfter": "1h"}, False),
    ({"budget": 12}, False),
    ({"releases": [{"image": OTHER_IMAGE}]}, False),
    ({"storage": {"size": "9Gi"}}, True),
    ({"storage": {"kind": "none"}}, True),
    ({"storage": {"mountPath": "/work"}}, True),
    ({"image": OTHER_IMAGE}, True),
    ({"resources": {"memory": "1Gi"}}, True),
    ({"resources": {"burst": {"cpu": "3"}}}, True),
    ({"env": [{"name": "A", "value": "1"}]}, True),
    ({"command": ["/bin/sh"]}, True),
    ({"capacity": "spot"}, True),
    ({"architecture": "amd64"}, True),
    ({"capabilities": []}, True),  # DNS is a part of the pod
    ({"capabilities": ["dns", "web"]}, False),  # and what else may be reached is a part of the policy
    ({"probe": {"port": 80}}, True),
    ({"tier": "untrusted"}, True),
    ({"claimEnv": True, "pool": {"size": 0}}, True),
]


def stable(plan: ClassPlan) -> str:
    return releases_of(plan)[0].hash


@pytest.mark.parametrize(("change", "renames"), CHANGES, ids=json.dumps)
def test_another_template_gives_another_release_name(change: Object, renames: bool) -> None:
    before = sandbox(capabilities=["dns"])
    assert (stable(plan_of({**before, **change})) != stable(plan_of(before))) is renames


@FEW
@given(class_settings(), class_settings())
def test_names_differ_exactly_where_templates_do(class_: Object, other_class: Object) -> None:
    # Of one name, so that they could be versions of the same class.
    first, second = (plan_of({**some, "name": "same"}, capacity=NODES) for some in (class_, other_class))
    specs = [template_spec(plan, plan.settings.image, {}) for plan in (first, second)]
    tiers = first.settings.tier == second.settings.tier  # is a label of the pod's
    assert (stable(first) == stable(second)) is (specs[0] == specs[1] and tiers)


@FEW
@given(planned(), st.integers(0, 9))
def test_the_pool_size_is_not_part_of_the_hash(plan: ClassPlan, size: int) -> None:
    changed = replace(
        plan, settings=plan.settings.model_copy(update={"pool": plan.settings.pool.model_copy(update={"size": size})})
    )
    assert releases_of(changed) == releases_of(plan)


@FEW
@given(class_settings())
def test_another_file_system_renames_nothing(class_: Object) -> None:
    few, many = (created(class_, count, capacity=NODES) for count in (1, 3))
    for kind in ("templates", "pools", "storage_classes"):
        before = {document["metadata"]["name"]: document for document in getattr(few, kind)}
        after = {document["metadata"]["name"]: document for document in getattr(many, kind)}
        assert set(before) <= set(after)
        if kind != "pools":
            assert all(after[name] == document for name, document in before.items())


@FEW
@given(planned())
def test_each_release_has_a_template_and_a_pool_per_shard(plan: ClassPlan) -> None:
    objects = objects_of(plan)
    names = [name for release in objects.releases for name in release.names]
    assert len(set(names)) == len(names) == len(objects.releases) * (plan.shards if plan.slots else 1)
    assert [template["metadata"]["name"] for template in objects.templates] == names
    assert [pool["metadata"]["name"] for pool in objects.pools] == names
    for template, pool in zip(objects.templates, objects.pools, strict=True):
        assert pool["spec"]["sandboxTemplateRef"]["name"] == template["metadata"]["name"]
        assert len(pool["metadata"]["name"]) <= 63 - len("home-") - len("-12345")
        assert template["metadata"]["labels"] == pool["metadata"]["labels"]
        pods = template["spec"]["podTemplate"]["metadata"]["labels"]
        assert pods["sandbox.users.io/class"] == plan.name
        assert pods["sandbox.users.io/release"] == template["metadata"]["labels"]["sandbox.users.io/release"]
        assert "sandbox.users.io/channel" not in pods
        assert template["spec"]["networkPolicyManagement"] == "Unmanaged"
        assert template["spec"]["volumeClaimTemplatesPolicy"] == "Disallowed"


@FEW
@given(planned())
def test_each_template_with_homes_has_a_cold_pool(plan: ClassPlan) -> None:
    objects = objects_of(plan)
    of = {cold_pool["spec"]["sandboxTemplateRef"]["name"]: cold_pool for cold_pool in objects.cold_pools}
    assert set(of) == ({template["metadata"]["name"] for template in objects.templates} if plan.slots else set())
    for name, pool in of.items():
        assert (pool["metadata"]["name"], pool["spec"]["replicas"]) == (f"{name}-cold", 0)
        assert len(pool["metadata"]["name"]) <= 63
        # Nobody who takes a warm one is sent there.
        assert f"/{name}-cold" not in objects.constraints["data"]["releases"]


def test_a_release_keeps_its_name_when_it_becomes_stable() -> None:
    tried = created(sandbox(image=IMAGE, releases=[{"image": OTHER_IMAGE}]))
    promoted = created(sandbox(image=OTHER_IMAGE))
    assert [(release.channel, release.image) for release in tried.releases] == [
        ("stable", IMAGE),
        ("next", OTHER_IMAGE),
    ]
    assert tried.releases[1].names == promoted.releases[0].names
    assert tried.templates[1]["spec"] == promoted.templates[0]["spec"]
    assert tried.templates[1]["metadata"]["labels"]["sandbox.users.io/channel"] == "next"
    assert promoted.templates[0]["metadata"]["labels"]["sandbox.users.io/channel"] == "stable"


def test_the_hash_ignores_the_spelling_of_quantities() -> None:
    plan = plan_of(sandbox())
    assert release_hash(plan, IMAGE) == release_hash(plan_of(dict(reversed(sandbox().items()))), IMAGE)
    assert len(release_hash(plan, IMAGE)) == 8


@given(st.integers(0, 500), st.integers(1, 20))
def test_a_pool_is_divided_evenly_over_shards(members: int, shards: int) -> None:
    parts = divide_members(members, shards)
    assert sum(parts) == members
    assert len(parts) == shards
    assert max(parts) - min(parts) <= 1


def test_the_pool_size_follows_from_its_claims() -> None:
    fixed = pool_choice(plan_of(sandbox(pool={"size": 3})).settings.pool)
    assert (fixed.size, fixed.expected_miss_rate) == (3, None)
    sized = pool_choice(
        plan_of(sandbox(pool={"peakClaimsPerHour": 60, "replenishSeconds": 30, "missRate": "0.01"})).settings.pool
    )
    assert sized.size == 4
    assert sized.expected_miss_rate is not None
    assert 0 < sized.expected_miss_rate <= plan_of(sandbox()).settings.pool.miss_rate


def test_templates_allow_variables_by_the_class_and_never_volumes() -> None:
    usual = created(sandbox()).templates[0]["spec"]
    open_ = created(sandbox(claimEnv=True, pool={"size": 0})).templates[0]["spec"]
    assert (usual["envVarsInjectionPolicy"], open_["envVarsInjectionPolicy"]) == ("Disallowed", "Allowed")
    assert usual["volumeClaimTemplatesPolicy"] == open_["volumeClaimTemplatesPolicy"] == "Disallowed"


@pytest.mark.parametrize(
    "class_", [fargate(), sandbox(storage={"kind": "none"}), sandbox(**VETTED, storage={"kind": "none"})]
)
def test_a_class_without_homes_has_one_pool(class_: Object) -> None:
    objects = created(class_, 3)
    assert len(objects.pools) == 1
    assert objects.storage_classes == ()
    assert "volumeClaimTemplates" not in objects.templates[0]["spec"]
