"""The parts of a review from settings: capabilities, quotas and cost."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from agentenv.cli.review.cost import UNREADABLE, costs
from agentenv.cli.review.quotas import quota_needs
from agentenv.cli.review.reach_changes import capability_changes
from agentenv.config import Settings, read
from agentenv.core.cost.estimate import Estimate, estimate

IMAGE = "registry.example.com/sandbox@sha256:" + "a" * 64
REACHED = {"publicAccessCidrs": ["203.0.113.0/24"]}


def settings(*classes: dict[str, Any], **more: Any) -> Settings:
    config = {
        "aws:region": "us-east-1",
        "agent-environment:cluster": {"admins": ["arn:aws:iam::111122223333:role/platform"], **REACHED},
        "agent-environment:cost": {"owner": "platform", "costCenter": "1"},
        "agent-environment:sandboxClasses": [{"image": IMAGE, **class_} for class_ in classes],
        **{f"agent-environment:{key}": value for key, value in more.items()},
    }
    return read(config, "staging")


def elsewhere(region: str) -> Settings:
    return read({"aws:region": region, "agent-environment:cluster": REACHED}, "staging")


def standard(*capabilities: object, **more: Any) -> dict[str, Any]:
    return {"name": "standard", "capabilities": list(capabilities), **more}


def test_a_gained_capability_has_an_example() -> None:
    before, after = settings(standard("dns")), settings(standard("dns", {"cidr": "198.51.100.0/24", "ports": [5432]}))
    (change,) = capability_changes(before, after)
    assert change.name == "standard"
    assert change.lost == []
    assert change.gained == [
        "198.51.100.0/24 on tcp 5432: for example 198.51.100.0 on TCP port 5432 (of 198.51.100.0 to 198.51.100.255)"
    ]
    (back,) = capability_changes(after, before)
    assert (back.gained, back.lost) == ([], change.gained)


def test_a_capability_that_opens_nothing_more_is_marked() -> None:
    (change,) = capability_changes(
        settings(standard("dns", "web", "git")), settings(standard("dns", "web", "git", "packages"))
    )
    assert change.gained == ["packages (reaches nothing more)"]


def test_the_same_reach_in_other_capabilities_is_marked() -> None:
    halves = [{"cidr": f"198.51.100.{start}/25", "ports": [443]} for start in (0, 128)]
    whole = {"cidr": "198.51.100.0/24", "ports": [443]}
    (change,) = capability_changes(settings(standard(*halves)), settings(standard(whole)))
    assert all("reaches nothing more" in line for line in [*change.gained, *change.lost])


def test_a_weaker_isolation_is_a_gain() -> None:
    before = settings(standard(tier="untrusted", storage={"kind": "none"}))
    (change,) = capability_changes(before, settings(standard(tier="standard", storage={"kind": "none"})))
    assert "tier standard" in change.gained
    assert "tier untrusted" in change.lost


def test_who_may_connect_to_the_daemon_is_a_change() -> None:
    service = {
        "image": f"registry.example.com/workspace-service@sha256:{'a' * 64}",
        "workspaced": {"image": f"registry.example.com/workspaced@sha256:{'b' * 64}"},
    }
    before, after = settings(standard("dns")), settings(standard("dns"), service=service)
    (change,) = capability_changes(before, after)
    assert change.gained == ["daemon workspaced, reached from gateway and workspace-service"]
    assert change.lost == ["daemon none, reached from nowhere"]


def test_added_and_removed_classes_are_listed() -> None:
    before, after = settings(standard("dns")), settings({"name": "other", "capabilities": ["dns"]})
    assert [(change.name, bool(change.gained), bool(change.lost)) for change in capability_changes(before, after)] == [
        ("other", True, False),
        ("standard", False, True),
    ]
    assert capability_changes(before, before) == []


def test_quotas_have_the_needs_before_and_after() -> None:
    before = settings(standard(maxSandboxes=10))
    after = settings(standard(maxSandboxes=1000), storage={"fileSystems": 3})
    found = {need.name: need for need in quota_needs(before, after)}
    systems = found["quota: EFS file systems"]
    assert (systems.before, systems.after, systems.limit, systems.ok) == (1, 3, None, None)
    assert found["quota: access points of a file system"].after == 334
    assert not found["quota: EKS clusters in the region"].changed
    assert all(need.before is None for need in quota_needs(None, after))


def test_without_prices_there_is_a_note_and_no_figure() -> None:
    document = costs(None, elsewhere("sa-east-1")).as_json()
    assert (
        document["before"],
        document["after"],
        document["per_user"],
        document["parts"],
    ) == (None, None, None, [])
    assert "no prices of sa-east-1" in document["note"]
    assert costs(None, None).note == UNREADABLE


def test_costs_of_both_are_for_the_users_of_the_later_revision() -> None:
    found = costs(settings(), settings(network={"nat": "per-zone"}))
    assert found.before is not None
    assert found.after is not None
    # One more gateway with its address, to the cent; nobody sends anything without classes.
    assert found.parts == (("NAT gateways", Decimal("36.5"), Decimal("73.0")),)
    assert found.after - found.before == Decimal("36.5")
    assert (found.users, found.per_user) == (100, found.after / 100)
    assert found.note == ""
    json.dumps(found.as_json())


def test_another_estimator_is_called_for_both_revisions() -> None:
    calls: list[tuple[int, int, Decimal]] = []

    def estimator(config: Settings, users: int, hours: Decimal, /) -> Estimate:
        calls.append((config.storage.file_systems, users, hours))
        return estimate(config, users, hours)

    after = settings(storage={"fileSystems": 2}, cost={"owner": "a", "expectedUsers": 7, "activeHours": 3})
    assert costs(settings(), after, estimator).users == 7
    assert calls == [(1, 7, Decimal(3)), (2, 7, Decimal(3))]
