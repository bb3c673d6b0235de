"""Zones, instance types, versions and images, from the simulated account or from stubs."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.cli.preflight import needs, versions, zones
from agentenv.cli.preflight.check import Check, run_checks
from agentenv.config import Settings
from agentenv.core.nodes.node_pools import NodePool
from tests.fast.cli.preflight.conftest import StubbedSession
from tests.fast.config.stack_samples import config, sandbox, settings


@pytest.mark.parametrize(
    ("state", "ok", "expected"),
    [("opt-in-not-required", True, ""), ("opted-in", True, ""), ("not-opted-in", False, "aws account enable-region")],
)
def test_a_region_without_opt_in_fails(stubbed: StubbedSession, state: str, ok: bool, expected: str) -> None:
    regions = [{"RegionName": "us-east-1", "OptInStatus": state}]
    stubbed.stub("ec2").add_response("describe_regions", {"Regions": regions}, {"AllRegions": True})
    found = stubbed.check(zones.questions(settings()), "the region")
    assert found.ok is ok
    assert expected in found.why


def test_an_unknown_region_fails(stubbed: StubbedSession) -> None:
    from agentenv.config import read

    regions = [{"RegionName": "us-east-1", "OptInStatus": "opted-in"}]
    stubbed.stub("ec2").add_response("describe_regions", {"Regions": regions})
    found = stubbed.check(zones.questions(read(config(region="us-east-9"), "dev")), "the region")
    assert (found.ok, found.why) == (False, "there is no such region; similar regions: us-east-1")


def test_zones_are_counted_or_checked_by_name(simulated: StubbedSession) -> None:
    assert simulated.check(zones.questions(settings()), "zones").ok is True
    named = settings({"network": {"zones": ["us-east-1a", "us-east-1z"]}})
    found = simulated.check(zones.questions(named), "zones")
    assert found.ok is False
    assert found.why.startswith("us-east-1z not available to this account")


def test_every_default_pool_is_offered_in_each_zone(simulated: StubbedSession) -> None:
    parsed = settings({"sandboxClasses": [sandbox(capacity="both")]})
    found = [simulated.check(zones.questions(parsed), f"instances of {pool.name}") for pool in needs.pools_of(parsed)]
    assert len(found) == 5
    assert all("us-east-1a: " in str(check.limit) and "us-east-1b: " in str(check.limit) for check in found)


def test_an_unavailable_family_fails(simulated: StubbedSession) -> None:
    parsed = settings({"capacity": {"system": {"families": ["m9z"]}}})
    found = simulated.check(zones.questions(parsed), "instances of system")
    assert (found.ok, found.limit) == (False, "us-east-1a: none; us-east-1b: none")
    assert "none of these is offered in us-east-1a, us-east-1b" in found.why


def pool() -> NodePool:
    return next(pool for pool in needs.pools_of(settings()) if pool.system)


def test_each_zone_needs_one_family_of_a_pool() -> None:
    assert pool().families == ("t4g", "m7g")
    half = zones.offering_answer(pool(), ["a", "b"], [("a", "t4g"), ("b", "m7g")])
    assert (half.ok, half.why) == (True, "not in every zone: m7g, t4g")
    assert zones.offering_answer(pool(), ["a", "b"], [("a", "t4g"), ("a", "m7g")]).ok is False


def test_bare_metal_types_are_matched_by_size(stubbed: StubbedSession) -> None:
    stubbed.stub("ec2").add_response(
        "describe_instance_type_offerings",
        {"InstanceTypeOfferings": [{"InstanceType": "m7i.large", "Location": "us-east-1a"}]},
        {
            "LocationType": "availability-zone",
            "Filters": [
                {"Name": "location", "Values": ["us-east-1a", "us-east-1b"]},
                {"Name": "instance-type", "Values": ["m7i.*"]},
            ],
        },
    )
    parsed = settings(
        {"network": {"zones": ["us-east-1a", "us-east-1b"]}, "capacity": {"system": {"families": ["m7i-metal"]}}}
    )
    assert stubbed.check(zones.questions(parsed), "instances of system").ok is False


def test_the_pinned_builds_are_what_eks_offers(simulated: StubbedSession) -> None:
    run_check = [question for question in versions.questions(settings()) if question.name.startswith("add-on ")]
    assert len(run_check) == 7
    assert [check for check in run_checks(run_check, simulated.account()) if check.ok is not True] == []


def test_a_removed_build_fails_with_a_suggestion(simulated: StubbedSession) -> None:
    parsed = settings({"cluster": {"addonVersions": {"coredns": "v1.0.0-eksbuild.1"}}})
    found = simulated.check(versions.questions(parsed), "add-on coredns")
    assert found.ok is False
    assert found.needed == "v1.0.0-eksbuild.1"
    assert f"set another in cluster.addonVersions, such as {found.limit}" in found.why


@pytest.mark.parametrize(
    ("state", "ok"),
    [
        ({"versionStatus": "STANDARD_SUPPORT"}, True),
        ({"status": "extended-support"}, True),
        ({"versionStatus": "UNSUPPORTED"}, False),
    ],
)
def test_a_version_must_be_supported(stubbed: StubbedSession, state: dict[str, Any], ok: bool) -> None:
    parsed = {"clusterVersions": [{"clusterVersion": "1.35", **state}]}
    stubbed.stub("eks").add_response("describe_cluster_versions", parsed)
    assert stubbed.check(versions.questions(settings()), "the cluster's version").ok is ok


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("standard", "EKS upgrades the cluster by itself"), ("extended", "it costs six times")],
)
def test_the_end_of_standard_support_is_named(simulated: StubbedSession, policy: str, expected: str) -> None:
    parsed = settings({"cluster": {"supportPolicy": policy}})
    found = simulated.check(versions.questions(parsed), "the cluster's version")
    assert (found.ok, found.why) == (True, f"until 2027-03-27; after it {expected}")


def test_an_unknown_version_fails(stubbed: StubbedSession) -> None:
    parsed = {"clusterVersions": [{"clusterVersion": "1.99", "versionStatus": "STANDARD_SUPPORT"}]}
    stubbed.stub("eks").add_response("describe_cluster_versions", parsed)
    found = stubbed.check(versions.questions(settings()), "the cluster's version")
    assert (found.ok, found.limit) == (False, "1.99")


PARAMETER = (
    "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/standard"
    "/amazon-eks-node-al2023-arm64-standard-1.35-v20261103/image_id"
)


def image(stubbed: StubbedSession, found: list[dict[str, str]] | None) -> Check:
    """Return the check of the image of the system nodes."""
    ssm = stubbed.stub("ssm")
    if found is None:
        ssm.add_client_error("get_parameter", "ParameterNotFound", "", expected_params={"Name": PARAMETER})
    else:
        ssm.add_response("get_parameter", {"Parameter": {"Value": "ami-1"}}, {"Name": PARAMETER})
        stubbed.stub("ec2").add_response("describe_images", {"Images": found}, {"ImageIds": ["ami-1"]})
    return stubbed.check(versions.questions(settings({"capacity": {"ami": "al2023@v20261103"}})), "node image")


def test_the_image_is_read_from_karpenters_parameter(stubbed: StubbedSession) -> None:
    found = image(stubbed, [{"ImageId": "ami-1"}])
    assert (found.name, found.needed, found.limit, found.ok) == (
        "node image for arm64, standard",
        "al2023@v20261103",
        "ami-1",
        True,
    )


@pytest.mark.parametrize(("images", "expected"), [(None, "no such release"), ([], "no longer exists")])
def test_a_missing_image_fails(stubbed: StubbedSession, images: list[dict[str, str]] | None, expected: str) -> None:
    found = image(stubbed, images)
    assert found.ok is False
    assert expected in found.why


def nitro(**capacity: Any) -> Settings:
    """Return the settings of a class in Nitro sandboxes."""
    return settings(
        {
            "cluster": {"version": "1.36"},
            "capacity": capacity,
            "sandboxClasses": [sandbox(tier="untrusted", kernel="nitro")],
        }
    )


@pytest.mark.parametrize(
    ("images", "ok", "why"),
    [
        ([], False, "not visible to this account: ami-0a1b2c3d"),
        ([{"ImageId": "ami-0a1b2c3d", "Architecture": "x86_64"}], False, "no image for arm64"),
        ([{"ImageId": "ami-0a1b2c3d", "Architecture": "arm64"}], True, ""),
    ],
)
def test_the_nitro_runtime_needs_a_custom_image(
    stubbed: StubbedSession, images: list[dict[str, str]], ok: bool, why: str
) -> None:
    expected = {"Filters": [{"Name": "image-id", "Values": ["ami-0a1b2c3d"]}]}
    stubbed.stub("ec2").add_response("describe_images", {"Images": images}, expected)
    parsed = nitro(nitroImages=["ami-0a1b2c3d"], families=["m7g"])
    check = stubbed.check(versions.questions(parsed), "node images with the Nitro")
    assert check.ok is ok
    assert why in check.why


@pytest.mark.parametrize(("families", "ok"), [(["m6i", "t3"], True), (["t3"], False)])
def test_nitro_sandboxes_need_families_with_enclaves(simulated: StubbedSession, families: list[str], ok: bool) -> None:
    parsed = nitro(nitroImages=["ami-0a1b2c3d"], families=families)
    check = simulated.check(versions.questions(parsed), "families with Nitro Enclaves")
    assert check.ok is ok
    assert "t3" in check.why or "none of" in check.why
