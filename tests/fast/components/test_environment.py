"""What holds for every resource of an environment: tags, names, options, and the whole's own graph."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pulumi
import pytest

from components.environment import Environment
from components.plain import ArgumentError
from model.names import KINDS
from tests.fast.components.graph import Graph, registered
from tests.fast.components.shapes import OWNERSHIP, network, storage

NAMED = {
    "aws:cloudwatch/logGroup:LogGroup": "log-group",
    "aws:ec2/securityGroup:SecurityGroup": "security-group",
    "aws:iam/role:Role": "iam-role",
    "aws:kms/alias:Alias": "kms-alias",
}


def environment(opts: pulumi.ResourceOptions | None = None, name: str = "agents", **more: Any) -> Environment:
    args: Any = {
        "ownership": OWNERSHIP,
        "network": {"cidr": "10.40.0.0/16", "zones": 3, "nat": "per-zone", "endpoints": ["ecr.api", "sts"]},
        "storage": {"file_systems": 2},
        **more,
    }
    return Environment(name, args, opts)


@cache
def whole(stage: str = "dev", name: str = "agents") -> Graph:
    return registered(
        lambda: environment(name=name, ownership={**OWNERSHIP, "environment": stage, "tags": {"team": "x"}})
    )


def takes_tags(type_: str) -> bool:
    """Whether the SDK's class of a type takes tags."""
    package, _, class_ = type_.partition(":")[2].partition(":")
    module = importlib.import_module(f"pulumi_aws.{package.partition('/')[0]}")
    return "tags" in inspect.signature(getattr(module, class_)._internal_init).parameters


def test_whatever_can_carry_tags_carries_them() -> None:
    made = whole()
    taggable = [one for one in made.cloud() if takes_tags(one.type)]
    assert len(taggable) > 25
    for one in taggable:
        tags = one.inputs["tags"]
        assert tags["component"] in {"network", "storage"}
        assert tags["Name"].startswith("dev-agents-")
        assert {key: tags[key] for key in ("environment", "owner", "cost-center", "team")} == {
            "environment": "dev",
            "owner": "platform",
            "cost-center": "cc-1",
            "team": "x",
        }
        for key, value in tags.items():
            assert KINDS["aws-tag-key"].takes(key)
            assert KINDS["aws-tag-value"].takes(value)
    assert not [one for one in made.cloud() if "tags" in one.inputs and one not in taggable]


@pytest.mark.parametrize("name", ["agents", "a-name-much-longer-than-anybody-would-give-" + "x" * 60])
def test_physical_names_fit_their_service_and_say_the_environment(name: str) -> None:
    made = whole("staging-eu", name)
    for type_, kind in NAMED.items():
        assert made.of(type_)
        for one in made.of(type_):
            assert KINDS[kind].takes(one.inputs["name"]), one.inputs["name"]
            assert "staging-eu" in one.inputs["name"]


def test_descriptions_are_such_as_ec2_takes() -> None:
    described = [
        one for one in whole().cloud() if one.type.startswith(("aws:ec2", "aws:vpc")) and "description" in one.inputs
    ]
    assert described
    for one in described:
        assert re.fullmatch(r"[a-zA-Z0-9. _:/()#,@\[\]+=&;{}!$*-]{1,255}", one.inputs["description"])


def test_two_environments_of_one_account_share_no_name() -> None:
    names = [{one.inputs["name"] for type_ in NAMED for one in whole(stage).of(type_)} for stage in ("dev", "staging")]
    assert not names[0] & names[1]


def test_resource_names_are_unique_and_the_tree_is_the_components() -> None:
    made = whole()
    assert len({one.key for one in made.made}) == len(made.made)
    network, storage, top = (
        made.one(f"agent-environment:index:{kind}") for kind in ("Network", "Storage", "Environment")
    )
    assert network.parent == storage.parent == top.urn
    assert {one.parent for one in made.cloud()} == {network.urn, storage.urn}


def test_prod_keeps_its_data_unless_it_is_told_otherwise() -> None:
    assert {one.type.rsplit(":", 1)[-1] for one in whole("prod").cloud() if one.protect} == {
        "FileSystem",
        "FileSystemPolicy",
        "Key",
    }
    assert not [one for one in whole().cloud() if one.protect or one.retain]
    told = registered(lambda: environment(ownership={**OWNERSHIP, "environment": "prod"}, keep_data=False))
    assert not [one for one in told.cloud() if one.protect]


def test_the_storage_is_in_the_networks_private_subnets_and_admits_its_nodes() -> None:
    made = whole()
    assert {one.inputs["subnetId"] for one in made.of("MountTarget")} == {
        f"agents-network-private-{zone}-id" for zone in range(3)
    }
    assert made.one("SecurityGroupIngressRule", "storage-from-nodes").inputs["referencedSecurityGroupId"] == (
        "agents-network-nodes-id"
    )


def test_a_first_preview_has_the_same_resources_as_the_update() -> None:
    assert {one.key for one in registered(environment, preview=True).made} == {one.key for one in whole().made}


BUILDERS: list[Callable[..., Any]] = [
    environment,
    lambda opts: network(opts=opts, endpoints=["sts"]),
    lambda opts: storage(opts=opts),
]


class Earlier(pulumi.CustomResource):
    """Something that was there before."""

    def __init__(self, name: str) -> None:
        super().__init__("test:index:Earlier", name, {})


@pytest.mark.parametrize("build", BUILDERS, ids=["environment", "network", "storage"])
def test_what_a_component_depends_on_comes_before_each_of_its_children(
    build: Callable[[pulumi.ResourceOptions], Any],
) -> None:
    made = registered(lambda: build(pulumi.ResourceOptions(depends_on=[Earlier("earlier")])))
    before = made.one("test:index:Earlier").urn
    assert made.cloud()
    assert not [one.name for one in made.cloud() if before not in one.after]


@pytest.mark.parametrize("build", BUILDERS, ids=["environment", "network", "storage"])
def test_a_components_provider_makes_its_children_and_answers_its_questions(
    build: Callable[[pulumi.ResourceOptions], Any],
) -> None:
    from pulumi_aws import Provider

    made = registered(lambda: build(pulumi.ResourceOptions(provider=Provider("elsewhere", region="eu-west-1"))))
    used = {one.provider.rsplit("::", 2)[-2] for one in made.cloud()} | {by.rsplit("::", 2)[-2] for _, by in made.asked}
    assert used == {"elsewhere"}


@pytest.mark.parametrize("build", BUILDERS, ids=["environment", "network", "storage"])
def test_protection_given_to_a_component_reaches_its_children(build: Callable[[pulumi.ResourceOptions], Any]) -> None:
    made = registered(lambda: build(pulumi.ResourceOptions(protect=True, retain_on_delete=True)))
    assert not [one.name for one in made.cloud() if not one.protect]
    # The engine itself hands retention on, from the component that asks for it.
    assert next(one for one in made.made if one.type.startswith("agent-environment:")).retain


@pytest.mark.parametrize("build", BUILDERS, ids=["environment", "network", "storage"])
def test_a_component_that_was_renamed_keeps_its_children(build: Callable[[pulumi.ResourceOptions], Any]) -> None:
    made = registered(lambda: build(pulumi.ResourceOptions(aliases=[pulumi.Alias(name="before")])))
    assert next(one for one in made.made if one.type.startswith("agent-environment:")).aliases == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"ownership": {**OWNERSHIP, "environment": "my env"}}, r"environment\.ownership\.environment: found 'my env'"),
        ({"ownership": {"environment": "dev"}}, r"environment\.ownership\.cost_center: found nothing"),
        (
            {"ownership": {**OWNERSHIP, "tags": {"owner": "me"}}},
            r"environment\.ownership\.tags\.owner: found a tag that is set from elsewhere",
        ),
        ({"netwrok": {}}, r"environment\.netwrok: found a name that is not known \(did you mean 'network'\?\)"),
        ({"cluster_name": 3}, r"environment\.cluster_name: found 3; allowed: a word"),
    ],
)
def test_a_wrong_argument_is_named(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        registered(lambda: environment(**more))


def test_a_name_that_no_service_takes_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"the component's name: found 'my agents'"):
        registered(lambda: environment(name="my agents"))
