"""Tests of orphaned storage, which is reported and not destroyed, and of the audit of access points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentenv.core.lifecycle import access_point_audit as audits
from agentenv.core.lifecycle.orphaned_storage import (
    SETTLED,
    UNNOTICED,
    Claim,
    Inventory,
    Point,
    Volume,
    VolumeClaim,
    orphans,
)
from tests.fast.core.lifecycle.samples import DAY, MINUTE, NOW

LONG = NOW - DAY
CLAIM = Claim("sandbox-box", "w-1", LONG, "u-1", "w-1", "pv-1", LONG, LONG)
HOME = Volume("pv-1", "fsap-1", "Bound", "Retain", LONG, "u-1", "w-1")
LOST = Volume("pv-0", "fsap-0", "Released", "Retain", LONG, "u-1", "w-1")
WAITING = VolumeClaim("sandbox-box", "home-w-2", LONG, False, "pv-2", own=True, uid="1")


def kinds(inventory: Inventory) -> list[tuple[str, str, str]]:
    return [(orphan.kind, orphan.name, orphan.heal) for orphan in orphans(inventory, NOW)]


def test_a_consistent_inventory_has_no_orphans() -> None:
    owned = VolumeClaim("sandbox-box", "home-box-1", LONG, True, "pv-1")
    assert kinds(Inventory([CLAIM], [owned], [HOME], [Point("fsap-1", "/classes/box/pv-1")])) == []


def test_an_access_point_without_a_volume_is_reported_after_a_while() -> None:
    lone = Point("fsap-9", "/classes/box/pv-9", LONG)
    assert kinds(Inventory(points=[lone])) == [("point-without-volume", "fsap-9", "nothing")]
    assert kinds(Inventory(points=[replace(lone, missed_since=None)])) == []
    assert kinds(Inventory(points=[replace(lone, missed_since=NOW - SETTLED + MINUTE)])) == []
    assert kinds(Inventory(points=None)) == []


def test_volumes_without_an_owner_are_reported() -> None:
    nobodys = Volume("pv-3", "fsap-3", "Released", "Retain", LONG)
    assert kinds(Inventory(volumes=[nobodys])) == [("volume-without-owner", "pv-3", "nothing")]
    assert kinds(Inventory(volumes=[replace(nobodys, policy="Delete")])) == [("volume-stuck", "pv-3", "nothing")]
    assert kinds(Inventory(volumes=[replace(nobodys, since=NOW)])) == []
    assert kinds(Inventory(volumes=[replace(nobodys, since=None)])) == []
    assert kinds(Inventory(volumes=[replace(nobodys, phase="Bound")])) == []
    assert kinds(Inventory(volumes=[replace(nobodys, owner="u-1", workspace="w-7")])) == []


def test_a_claim_without_an_owner_is_reported() -> None:
    assert kinds(Inventory([replace(CLAIM, owner="")])) == [("claim-without-owner", "sandbox-box/w-1", "nothing")]
    assert kinds(Inventory([replace(CLAIM, owner="", created=NOW)])) == []


def test_a_volume_claim_of_an_unfinished_restore_is_deleted_if_its_volume_is_retained() -> None:
    retained = replace(LOST, name="pv-2", phase="Bound", workspace="w-2")
    finding = ("volume-claim-without-sandbox", "sandbox-box/home-w-2")
    assert kinds(Inventory(volume_claims=[WAITING], volumes=[retained])) == [(*finding, "remove-volume-claim")]
    assert kinds(Inventory(volume_claims=[WAITING], volumes=[replace(retained, policy="Delete")])) == [
        (*finding, "nothing")
    ]
    assert kinds(Inventory(volume_claims=[replace(WAITING, own=False)], volumes=[retained])) == [(*finding, "nothing")]
    assert kinds(Inventory(volume_claims=[replace(WAITING, created=NOW)], volumes=[retained])) == []
    assert kinds(Inventory(volume_claims=[replace(WAITING, owned=True)], volumes=[retained])) == []
    claim = replace(CLAIM, name="w-2", workspace="w-2", volume="")
    assert kinds(Inventory([claim], [WAITING], [retained])) == []


@pytest.mark.parametrize(
    ("fields", "heal"),
    [
        ({}, "restore"),
        ({"volume_since": NOW}, "nothing"),  # it may be changing this very moment
        ({"volume_since": None}, "nothing"),
        ({"volume_since": NOW - UNNOTICED * 2, "last_active": NOW}, "nothing"),  # it has been worked in
        ({"volume_since": NOW - UNNOTICED / 2, "last_active": NOW}, "restore"),
        ({"volume_since": NOW - UNNOTICED * 2, "last_active": NOW - UNNOTICED * 3}, "restore"),
        ({"lost": NOW}, "nothing"),  # nor may its own, which was let go of only now
        ({"lost": None}, "nothing"),
        # It was given a slot that was old: what was worked in before the loss was worked in at home.
        ({"lost": NOW - UNNOTICED * 2, "last_active": NOW - UNNOTICED * 2 - MINUTE}, "restore"),
        ({"lost": NOW - UNNOTICED * 2, "last_active": NOW}, "nothing"),
        ({"lost": NOW - UNNOTICED / 2, "last_active": NOW}, "restore"),
    ],
    ids=str,
)
def test_a_workspace_with_a_wrong_volume_is_restored_unless_it_was_used(fields: dict[str, Any], heal: str) -> None:
    fields = dict(fields)
    lost = replace(LOST, since=fields.pop("lost", LONG))
    claim = replace(CLAIM, volume="pv-1", **fields)
    other = replace(HOME, workspace="", owner="")
    assert kinds(Inventory([claim], volumes=[other, lost])) == [("workspace-off-its-home", "sandbox-box/w-1", heal)]
    # Of several nobody can say which.
    more = [other, LOST, replace(LOST, name="pv-00")]
    assert kinds(Inventory([claim], volumes=more)) == [("workspace-off-its-home", "sandbox-box/w-1", "nothing")]
    assert kinds(Inventory([replace(claim, going=True)], volumes=[other, LOST])) == []
    # Data that is being destroyed on request is nobody's home.
    assert kinds(Inventory([claim], volumes=[other, replace(lost, destroy_requested=True)])) == []


def test_a_member_of_a_swarm_is_not_restored() -> None:
    member = replace(CLAIM, volume="pv-1", task="t-1")
    other = replace(HOME, workspace="", owner="")
    assert kinds(Inventory([replace(member, task="")], volumes=[other, LOST]))[0][2] == "restore"
    assert kinds(Inventory([member], volumes=[other, LOST])) == [
        ("workspace-off-its-home", "sandbox-box/w-1", "nothing")
    ]


def test_the_shared_volume_claim_of_a_deleted_swarm_is_deleted() -> None:
    shared = VolumeClaim("sandbox-box", "shared-t-1", LONG, False, "pv-9", uid="1", task="t-1")
    lone = [("volume-claim-without-swarm", "sandbox-box/shared-t-1", "remove-volume-claim")]
    assert kinds(Inventory(volume_claims=[shared])) == lone
    assert kinds(Inventory(volume_claims=[replace(shared, created=NOW)])) == []
    assert kinds(Inventory(volume_claims=[replace(shared, owned=True)])) == []
    assert kinds(Inventory(volume_claims=[shared], swarms={("sandbox-box", "t-1")})) == []
    assert kinds(Inventory(volume_claims=[shared], swarms={("sandbox-other", "t-1"), ("sandbox-box", "t-2")})) == lone
    for going in (False, True):
        member = replace(CLAIM, task="t-1", going=going)
        assert kinds(Inventory([member], [shared])) == []
    # A claim of the same name as what is shared is nobody who shares it.
    assert kinds(Inventory([replace(CLAIM, name="shared-t-1", task="t-2")], [shared])) == lone


EXPECTED = audits.Expected(("fs-1",), "/classes/box/pv-1", 7, 7)
VOLUME = audits.Volume("pv-1", "fs-1::fsap-1", "sandbox-box", "box", "box", expected=EXPECTED)
POINT = audits.Point("fsap-1", "fs-1", "/classes/box/pv-1", 7, 7)


@pytest.mark.parametrize(
    ("volume", "point", "wrong"),
    [
        ({}, {}, None),
        ({"handle": "fs-1"}, {}, "no-handle"),
        ({}, {"id": "fsap-2"}, "no-such-point"),
        ({}, {"state": "deleting"}, "point-not-there-yet"),
        ({}, {"file_system": "fs-2"}, "other-file-system"),
        ({"handle": "fs-2::fsap-1"}, {"file_system": "fs-2"}, "other-file-system"),
        ({}, {"path": "/"}, "other-path"),
        ({}, {"path": "/classes/box/pv-10"}, "other-path"),
        ({}, {"uid": 0}, "other-ids"),
        ({}, {"gid": None}, "other-ids"),
        ({"sandbox_class": "other"}, {}, "other-class"),
        ({"sandbox_class": "other", "moved": True}, {}, None),
    ],
    ids=str,
)
def test_each_wrong_access_point_is_found(volume: dict[str, Any], point: dict[str, Any], wrong: str | None) -> None:
    changed_volume, changed_point = replace(VOLUME, **volume), replace(POINT, **point)
    assert [finding.wrong for finding in audits.audit([changed_volume], {changed_point.id: changed_point})] == (
        [wrong] if wrong else []
    )


def test_both_volumes_of_a_shared_access_point_are_reported() -> None:
    twice = [VOLUME, replace(VOLUME, name="pv-2", expected=replace(EXPECTED, path="/classes/box/*"))]
    findings = [(finding.wrong, finding.volume) for finding in audits.audit(twice, {"fsap-1": POINT})]
    assert findings == [("shared-point", "pv-1"), ("shared-point", "pv-2")]
