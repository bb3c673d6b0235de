"""Zones, instance types, versions and images, of the simulated account or as written down."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.cli.preflight import needs
from agentenv.cli.preflight import versions as builds
from agentenv.cli.preflight import zones as places
from agentenv.cli.preflight.check import Check, Question, run_checks
from agentenv.core.nodes.node_pools import NodePool
from tests.fast.cli.preflight.conftest import Written
from tests.fast.config.stack_samples import config, sandbox, settings


def one(questions: list[Question], name: str, written: Written) -> Check:
    (question,) = [question for question in questions if question.name.startswith(name)]
    return run_checks([question], written.account())[0]


@pytest.mark.parametrize(
    ("state", "ok", "said"),
    [("opt-in-not-required", True, ""), ("opted-in", True, ""), ("not-opted-in", False, "aws account enable-region")],
)
def test_a_region_that_is_not_opted_into_is_told(written: Written, state: str, ok: bool, said: str) -> None:
    regions = [{"RegionName": "us-east-1", "OptInStatus": state}]
    written.write("ec2").add_response("describe_regions", {"Regions": regions}, {"AllRegions": True})
    found = one(places.questions(settings()), "the region", written)
    assert found.ok is ok
    assert said in found.why


def test_a_region_that_there_is_not(written: Written) -> None:
    from agentenv.config import read

    regions = [{"RegionName": "us-east-1", "OptInStatus": "opted-in"}]
    written.write("ec2").add_response("describe_regions", {"Regions": regions})
    found = one(places.questions(read(config(region="us-east-9"), "dev")), "the region", written)
    assert (found.ok, found.why) == (False, "there is no such region; similar regions: us-east-1")


def test_zones_are_counted_or_looked_for_by_name(simulated: Written) -> None:
    assert one(places.questions(settings()), "zones", simulated).ok is True
    named = settings({"network": {"zones": ["us-east-1a", "us-east-1z"]}})
    found = one(places.questions(named), "zones", simulated)
    assert found.ok is False
    assert found.why.startswith("us-east-1z not available to this account")


def test_every_pool_of_the_defaults_is_offered_somewhere_in_each_zone(simulated: Written) -> None:
    told = settings({"sandboxClasses": [sandbox(capacity="both")]})
    found = [one(places.questions(told), f"instances of {pool.name}", simulated) for pool in needs.pools_of(told)]
    assert len(found) == 5
    assert all("us-east-1a: " in str(check.limit) and "us-east-1b: " in str(check.limit) for check in found)


def test_a_family_that_nobody_offers_is_told(simulated: Written) -> None:
    told = settings({"capacity": {"system": {"families": ["m9z"]}}})
    found = one(places.questions(told), "instances of system", simulated)
    assert (found.ok, found.limit) == (False, "us-east-1a: none; us-east-1b: none")
    assert "none of these is offered in us-east-1a, us-east-1b" in found.why


def pool() -> NodePool:
    return next(pool for pool in needs.pools_of(settings()) if pool.system)


def test_each_zone_needs_one_family_of_a_pool_and_what_lacks_is_told() -> None:
    assert pool().families == ("t4g", "m7g")
    half = places.offering_answer(pool(), ["a", "b"], [("a", "t4g"), ("b", "m7g")])
    assert (half.ok, half.why) == (True, "not in every zone: m7g, t4g")
    assert places.offering_answer(pool(), ["a", "b"], [("a", "t4g"), ("a", "m7g")]).ok is False


def test_types_of_bare_metal_are_asked_for_as_such(written: Written) -> None:
    written.write("ec2").add_response(
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
    told = settings(
        {"network": {"zones": ["us-east-1a", "us-east-1b"]}, "capacity": {"system": {"families": ["m7i-metal"]}}}
    )
    assert one(places.questions(told), "instances of system", written).ok is False


def test_the_pinned_builds_are_what_eks_offers(simulated: Written) -> None:
    asked = [question for question in builds.questions(settings()) if question.name.startswith("add-on ")]
    assert len(asked) == 7
    assert [check for check in run_checks(asked, simulated.account()) if check.ok is not True] == []


def test_a_build_that_is_gone_is_told_with_the_one_to_take(simulated: Written) -> None:
    told = settings({"cluster": {"addonVersions": {"coredns": "v1.0.0-eksbuild.1"}}})
    found = one(builds.questions(told), "add-on coredns", simulated)
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
def test_a_version_has_to_be_supported(written: Written, state: dict[str, Any], ok: bool) -> None:
    told = {"clusterVersions": [{"clusterVersion": "1.35", **state}]}
    written.write("eks").add_response("describe_cluster_versions", told)
    assert one(builds.questions(settings()), "the cluster's version", written).ok is ok


def test_a_version_that_eks_does_not_have(written: Written) -> None:
    told = {"clusterVersions": [{"clusterVersion": "1.99", "versionStatus": "STANDARD_SUPPORT"}]}
    written.write("eks").add_response("describe_cluster_versions", told)
    found = one(builds.questions(settings()), "the cluster's version", written)
    assert (found.ok, found.limit) == (False, "1.99")


PARAMETER = (
    "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/standard"
    "/amazon-eks-node-al2023-arm64-standard-1.35-v20261103/image_id"
)


def image(written: Written, found: list[dict[str, str]] | None) -> Check:
    """The check of the one image that the system's nodes need."""
    ssm = written.write("ssm")
    if found is None:
        ssm.add_client_error("get_parameter", "ParameterNotFound", "", expected_params={"Name": PARAMETER})
    else:
        ssm.add_response("get_parameter", {"Parameter": {"Value": "ami-1"}}, {"Name": PARAMETER})
        written.write("ec2").add_response("describe_images", {"Images": found}, {"ImageIds": ["ami-1"]})
    return one(builds.questions(settings({"capacity": {"ami": "al2023@v20261103"}})), "node image", written)


def test_the_image_is_looked_for_where_karpenter_looks(written: Written) -> None:
    found = image(written, [{"ImageId": "ami-1"}])
    assert (found.name, found.needed, found.limit, found.ok) == (
        "node image for arm64, standard",
        "al2023@v20261103",
        "ami-1",
        True,
    )


@pytest.mark.parametrize(("there", "said"), [(None, "no such release"), ([], "no longer exists")])
def test_an_image_that_is_not_there(written: Written, there: list[dict[str, str]] | None, said: str) -> None:
    found = image(written, there)
    assert found.ok is False
    assert said in found.why


def test_the_nitro_runtime_needs_an_image_of_our_own(simulated: Written) -> None:
    told = settings({"cluster": {"version": "1.36"}, "sandboxClasses": [sandbox(tier="untrusted", kernel="nitro")]})
    found = one(builds.questions(told), "node image with the Nitro", simulated)
    assert (found.ok, found.limit) == (False, 0)
