"""Resources with data, and the allowances for their loss."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from agentenv.cli.main import CommandError
from agentenv.cli.review.allowed_losses import FILE, Allowance, read_allowances
from agentenv.cli.review.changes import Change
from agentenv.cli.review.graph import Resource
from agentenv.cli.review.losses import data_lost_with, losses, unprotected
from tests.fast.cli.review.resources import ACCESS_POINT, FILE_SYSTEM, TODAY, of, resource, urn


def kubernetes(kind: str, version: str, **metadata: object) -> Resource:
    token = f"kubernetes:{version if '/' in version else f'core/{version}'}:{kind}"
    return resource(token, "thing", {"apiVersion": version, "kind": kind, "metadata": metadata})


HOLDING = (
    resource(FILE_SYSTEM, "fs"),
    resource(ACCESS_POINT, "home"),
    resource("aws:kms/key:Key", "key"),
    resource("aws:eks/cluster:Cluster", "cluster"),
    resource("agent-environment:index:Workspace", "seat", custom=False),
    kubernetes("StorageClass", "storage.k8s.io/v1"),
    kubernetes("PersistentVolume", "v1"),
    kubernetes("PersistentVolumeClaim", "v1"),
    kubernetes("Sandbox", "agents.x-k8s.io/v1beta1"),
    kubernetes("SandboxClaim", "extensions.agents.x-k8s.io/v1beta1"),
    kubernetes("CustomResourceDefinition", "apiextensions.k8s.io/v1"),
    kubernetes("Namespace", "v1", labels={"sandbox.users.io/class": "standard"}),
    resource("aws:sns/topic:Topic", "retained", retain=True),
    resource("aws:sns/topic:Topic", "protected", protect=True),
)


@pytest.mark.parametrize("held", HOLDING, ids=lambda resource: f"{resource.type}-{resource.name}")
@pytest.mark.parametrize("operation", ["replace", "delete"])
def test_losing_a_resource_with_data_blocks(held: Resource, operation: str) -> None:
    change = Change("replace" if operation == "replace" else "delete", held.urn, held.type)
    (loss,) = losses([change], of(held), [], TODAY)
    assert loss.blocks
    assert loss.lost == data_lost_with(held)


def test_a_retained_release_is_no_loss() -> None:
    for kind in ("SandboxTemplate", "SandboxWarmPool"):
        release = kubernetes(kind, "extensions.agents.x-k8s.io/v1beta1")
        assert data_lost_with(Resource(**{**vars(release), "retain": True})) is None


@pytest.mark.parametrize(
    "plain", [resource("aws:sns/topic:Topic", "t"), kubernetes("Namespace", "v1"), kubernetes("ConfigMap", "v1")]
)
def test_losing_a_resource_without_data_is_allowed(plain: Resource) -> None:
    assert losses([Change("delete", plain.urn, plain.type)], of(plain), [], TODAY) == []


def test_creations_and_updates_lose_nothing() -> None:
    fs = resource(FILE_SYSTEM, "fs")
    changes = [Change("create", fs.urn, fs.type), Change("update", fs.urn, fs.type)]
    assert losses(changes, of(fs), [], TODAY) == []


def test_a_lost_log_group_is_listed_and_does_not_block() -> None:
    logs = resource("aws:cloudwatch/logGroup:LogGroup", "logs")
    (loss,) = losses([Change("delete", logs.urn, logs.type)], of(logs), [], TODAY)
    assert not loss.blocks


def test_a_retained_resource_stays_and_still_blocks() -> None:
    fs = resource(FILE_SYSTEM, "fs", retain=True, protect=True)
    (loss,) = losses([Change("delete", fs.urn, fs.type)], of(fs), [], TODAY)
    assert (loss.stays, loss.protected, loss.blocks) == (True, True, True)


@pytest.mark.parametrize(("days", "blocks"), [(0, False), (5, False), (-1, True)])
def test_an_allowance_is_valid_to_the_end_of_its_day(days: int, blocks: bool) -> None:
    fs = resource(FILE_SYSTEM, "fs")
    allowance = Allowance(fs.urn, "it moves", "storage", TODAY + timedelta(days=days))
    (loss,) = losses([Change("delete", fs.urn, fs.type)], of(fs), [allowance], TODAY)
    assert loss.blocks is blocks


def test_an_allowance_is_for_one_resource_alone() -> None:
    first, second = resource(FILE_SYSTEM, "one"), resource(FILE_SYSTEM, "one-more")
    allowance = Allowance(first.urn, "it moves", "storage", TODAY)
    changes = [Change("delete", item.urn, item.type) for item in (first, second)]
    found = losses(changes, of(first, second), [allowance], TODAY)
    assert [(loss.change.name, loss.blocks) for loss in found] == [("one-more", True), ("one", False)]


def test_an_allowance_for_a_seat_includes_its_parts_alone() -> None:
    kind = "agent-environment:index:Workspace"
    around = resource("agent-environment:index:Environment", "agents", custom=False)
    seat = resource(kind, "seat", custom=False, parent=around.urn)
    inside, beside = (resource(ACCESS_POINT, name, parent=part.urn) for name, part in (("in", seat), ("by", around)))
    every = (around, seat, inside, beside)
    changes = [Change("delete", part.urn, part.type) for part in every]

    def blocking(urn_: str) -> set[str]:
        allowed = [Allowance(urn_, "they left", "storage", TODAY)]
        return {loss.change.name for loss in losses(changes, of(*every), allowed, TODAY) if loss.blocks}

    assert blocking(seat.urn) == {"by"}
    assert blocking(around.urn) == {"seat", "in", "by"}


def test_resources_that_lose_their_protection_are_listed() -> None:
    before = of(
        resource(FILE_SYSTEM, "a", protect=True), resource(FILE_SYSTEM, "b", retain=True), resource("x:y:Z", "c")
    )
    after = of(resource(FILE_SYSTEM, "a"), resource(FILE_SYSTEM, "b", retain=True), resource("x:y:Z", "c"))
    assert unprotected(before, after) == [urn(FILE_SYSTEM, "a")]


def write_file(folder: Path, text: str) -> Path:
    (folder / "policies").mkdir()
    (folder / FILE).write_text(text, encoding="utf-8")
    return folder


ENTRY = "  - {{urn: '{urn}', reason: it moves, owner: storage, until: {until}}}\n"


def test_the_file_is_read(tmp_path: Path) -> None:
    text = "losses:\n" + ENTRY.format(urn=urn(FILE_SYSTEM, "fs"), until="2026-03-20")
    (found,) = read_allowances(write_file(tmp_path, text), TODAY)
    assert (found.urn, found.until, found.line) == (urn(FILE_SYSTEM, "fs"), date(2026, 3, 20), 2)
    assert read_allowances(tmp_path / "elsewhere", TODAY) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("losses: []\nmore: 1\n", "one key, losses"),
        ("- a\n", "one key, losses"),
        ("losses: [a]\n", "an entry is a mapping"),
        ("losses:\n  - {urn: 'urn:pulumi:a::b::c::d', until: 2026-03-20}\n", "'reason' is missing"),
        ("losses:\n" + ENTRY.format(urn="urn:pulumi:prod::p::*::*", until="2026-03-20"), "not the whole URN"),
        ("losses:\n" + ENTRY.format(urn="fs", until="2026-03-20"), "not the whole URN"),
        ("losses:\n" + ENTRY.format(urn="urn:pulumi:a::b::c::d", until="2026-04-20"), "more than 30 days away"),
        ("losses:\n" + ENTRY.format(urn="urn:pulumi:a::b::c::d", until="soon"), "no day such as"),
        ("losses:\n  - {urn: u, reason: r, owner: o, until: 2026-03-20, forever: true}\n", "'forever' is not a key"),
        ("losses: [\n", "policies/allowed_losses.yaml:"),
    ],
)
def test_mistakes_in_the_file_have_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CommandError, match=r"policies/allowed_losses.yaml:[0-9]+") as refused:
        read_allowances(write_file(tmp_path, text), TODAY)
    assert message in str(refused.value)
