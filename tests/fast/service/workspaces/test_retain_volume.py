"""The volume of a claimed slot is retained with owner labels, and only then annotated as retained."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentenv.service.kube.client import (
    CLAIMS,
    CONFIGURATIONS,
    NAMESPACES,
    SANDBOXES,
    VOLUME_CLAIMS,
    VOLUMES,
    KubeApiError,
)
from agentenv.service.telemetry.logs import AUDIT
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.retain_volume import retain_all_volumes, retain_volume
from tests.fast.service.fake_api_server import FakeApiServer, Killed, run

SPACE = "sandbox-box"


@pytest.fixture
def shelf() -> FakeApiServer:
    """A class with slots, and one claim whose sandbox has its volume."""
    server = FakeApiServer()
    server.put(NAMESPACES, {"metadata": {"name": SPACE, "labels": {"sandbox.users.io/class": "box"}}})
    constraints = {"storage": "slot"}
    server.put(CONFIGURATIONS, {"metadata": {"name": "sandbox-class", "namespace": SPACE}, "data": constraints})
    labels = {"sandbox.users.io/user": "u-1", "sandbox.users.io/workspace": "w-1", "example.com/else": "x"}
    spec: dict[str, Any] = {"warmPoolRef": {"name": "box-a"}, "additionalPodMetadata": {"labels": labels}}
    about = {"name": "mine", "namespace": SPACE, "uid": "claim-uid"}
    server.put(CLAIMS, {"metadata": about, "spec": spec, "status": {"sandbox": {"name": "box-a-1"}}})
    slot(server, "box-a-1", "pv-1")
    return server


def slot(shelf: FakeApiServer, sandbox: str, volume: str, owner: str = "claim-uid") -> None:
    owners = [{"kind": "SandboxClaim", "uid": owner}]
    shelf.put(SANDBOXES, {"metadata": {"name": sandbox, "namespace": SPACE, "ownerReferences": owners}})
    about = {"name": f"home-{sandbox}", "namespace": SPACE, "uid": f"uid-of-{sandbox}"}
    shelf.put(VOLUME_CLAIMS, {"metadata": about, "spec": {"volumeName": volume}})
    spec = {"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"uid": f"uid-of-{sandbox}"}}
    shelf.put(VOLUMES, {"metadata": {"name": volume}, "spec": spec})


def policy(shelf: FakeApiServer, volume: str = "pv-1") -> str:
    found = shelf.find(VOLUMES, volume)
    assert found is not None
    return found["spec"]["persistentVolumeReclaimPolicy"]


def retained_annotation(shelf: FakeApiServer) -> str | None:
    found = shelf.find(CLAIMS, "mine", SPACE)
    assert found is not None
    return (found["metadata"].get("annotations") or {}).get("sandbox.users.io/kept")


def test_a_claimed_volume_is_retained_with_owner_labels(shelf: FakeApiServer) -> None:
    (kept,) = run(retain_all_volumes, shelf)
    assert (kept.outcome, kept.volume) == ("kept", "pv-1")
    assert (policy(shelf), retained_annotation(shelf)) == ("Retain", "true")
    volume = shelf.find(VOLUMES, "pv-1")
    assert volume is not None
    assert volume["metadata"]["labels"] == {"sandbox.users.io/user": "u-1", "sandbox.users.io/workspace": "w-1"}
    before = {key: one["metadata"]["resourceVersion"] for key, one in shelf.objects.items()}
    assert [one.outcome for one in run(retain_all_volumes, shelf)] == ["already"]
    assert {key: one["metadata"]["resourceVersion"] for key, one in shelf.objects.items()} == before


def test_the_volume_of_one_claim_can_be_retained(shelf: FakeApiServer) -> None:
    claim = shelf.find(CLAIMS, "mine", SPACE)
    assert claim is not None
    assert run(retain_volume, shelf, claim).outcome == "kept"
    assert policy(shelf) == "Retain"


def test_the_volume_of_an_unclaimed_slot_is_not_retained(shelf: FakeApiServer) -> None:
    slot(shelf, "box-a-2", "pv-2", owner="a-pool")
    run(retain_all_volumes, shelf)
    assert policy(shelf, "pv-2") == "Delete"


@pytest.mark.parametrize("missing", ["sandbox", "owner", "claim", "volume", "binding"])
def test_missing_and_foreign_volumes_are_not_retained(shelf: FakeApiServer, missing: str) -> None:
    if missing == "sandbox":
        del shelf.objects[(SANDBOXES, SPACE, "box-a-1")]
    elif missing == "owner":
        slot(shelf, "box-a-1", "pv-1", owner="another-claim")
    elif missing == "claim":
        del shelf.objects[(VOLUME_CLAIMS, SPACE, "home-box-a-1")]
    elif missing == "volume":
        del shelf.objects[(VOLUMES, "", "pv-1")]
    else:
        shelf.objects[(VOLUMES, "", "pv-1")]["spec"]["claimRef"]["uid"] = "one-before"
    (kept,) = run(retain_all_volumes, shelf)
    assert kept.outcome == "waiting"
    assert kept.why
    assert retained_annotation(shelf) is None
    if missing != "volume":
        assert policy(shelf) == "Delete"


def test_the_volume_of_a_replaced_sandbox_is_retained_too(shelf: FakeApiServer) -> None:
    run(retain_all_volumes, shelf)
    slot(shelf, "mine", "pv-3")
    shelf.objects[(CLAIMS, SPACE, "mine")]["status"] = {"sandbox": {"name": "mine"}}
    (kept,) = run(retain_all_volumes, shelf)
    assert (kept.outcome, kept.volume, policy(shelf, "pv-3")) == ("kept", "pv-3", "Retain")


@pytest.mark.parametrize("change", [1, 2])
def test_an_interrupted_pass_annotates_only_retained_volumes(shelf: FakeApiServer, change: int) -> None:
    def killed(number: int) -> None:
        if number == change:
            raise Killed

    shelf.before = killed
    with pytest.raises(Killed):
        run(retain_all_volumes, shelf)
    assert retained_annotation(shelf) is None
    assert [one.outcome for one in run(retain_all_volumes, shelf)] == ["kept"]
    assert (policy(shelf), retained_annotation(shelf)) == ("Retain", "true")


@pytest.mark.parametrize("change", [1, 2])
def test_two_passes_at_once_have_the_result_of_one(shelf: FakeApiServer, change: int) -> None:
    def beside(number: int) -> None:
        if number == change:
            shelf.before = lambda _: None
            run(retain_all_volumes, shelf)

    shelf.before = beside
    assert [one.outcome for one in run(retain_all_volumes, shelf)] == ["overtaken"]
    assert (policy(shelf), retained_annotation(shelf)) == ("Retain", "true")


def test_a_refused_volume_does_not_stop_the_others(shelf: FakeApiServer) -> None:
    second = {"name": "second", "namespace": SPACE, "uid": "second-uid"}
    spec = {"warmPoolRef": {"name": "box-a"}}
    shelf.put(CLAIMS, {"metadata": second, "spec": spec, "status": {"sandbox": {"name": "box-a-9"}}})
    slot(shelf, "box-a-9", "pv-9", owner="second-uid")

    def refusing(number: int) -> None:
        if number == 1:
            raise KubeApiError("not by you")

    shelf.before = refusing
    first, other = run(retain_all_volumes, shelf)
    assert (first.outcome, first.why, retained_annotation(shelf)) == ("refused", "not by you", None)
    assert (other.outcome, policy(shelf, "pv-9")) == ("kept", "Retain")


def test_a_transient_error_is_not_a_refusal(shelf: FakeApiServer) -> None:
    def busy(_: int) -> None:
        raise KubeApiError("too many requests", 429)

    shelf.before = busy
    with pytest.raises(KubeApiError):
        run(retain_all_volumes, shelf)


class Streaming(FakeApiServer):
    """Makes up big documents as they are asked for, and keeps none."""

    def list(self, kind: Any, namespace: str | None = None, labels: Any = None) -> Any:
        yield from super().list(kind, namespace, labels)
        if kind in {SANDBOXES, VOLUME_CLAIMS, VOLUMES}:
            for number in range(2000):
                about = {
                    "name": f"s-{number}",
                    "namespace": namespace or "",
                    "uid": f"{number}",
                    "resourceVersion": "1",
                }
                spec = {
                    "persistentVolumeReclaimPolicy": "Delete",
                    "template": {f"{key}": f"{number}" for key in range(100)},
                }
                yield {"metadata": about, "spec": spec}


def test_a_retention_pass_keeps_no_documents_in_memory(shelf: FakeApiServer) -> None:
    streaming = Streaming()
    streaming.objects = shelf.objects
    slot(streaming, "box-a-1", "pv-1")
    tracemalloc.start()
    try:
        assert [one.outcome for one in run(retain_all_volumes, streaming)] == ["kept"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert streaming.names(NAMESPACES) == ["sandbox-box"]
    # The documents themselves are some 13 kB each.
    assert peak < 6000 * 2000


@pytest.mark.parametrize("storage", ["none", "scratch", ""])
def test_a_class_without_volumes_of_its_own_is_left_alone(shelf: FakeApiServer, storage: str) -> None:
    shelf.objects[(CONFIGURATIONS, SPACE, "sandbox-class")]["data"]["storage"] = storage
    assert run(retain_all_volumes, shelf) == []


def somebody_elses(shelf: FakeApiServer) -> None:
    slot(shelf, "box-a-1", "pv-1")
    volume = shelf.objects[(VOLUMES, "", "pv-1")]
    volume["metadata"]["labels"] = {"sandbox.users.io/user": "u-2", "sandbox.users.io/workspace": "w-2"}
    volume["spec"]["persistentVolumeReclaimPolicy"] = "Retain"


def test_another_owners_volume_is_not_handed_over_or_changed(
    shelf: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    somebody_elses(shelf)
    before = shelf.find(VOLUMES, "pv-1")
    with caplog.at_level("INFO", AUDIT):
        (kept,) = run(retain_all_volumes, shelf)
    assert (kept.outcome, kept.volume, kept.foreign) == ("refused", "pv-1", True)
    # Whoever asked is told of it, and not of whom.
    assert "another owner" in kept.why
    assert "u-2" not in kept.why
    assert retained_annotation(shelf) is None
    assert shelf.find(VOLUMES, "pv-1") == before
    (audited,) = [row for row in caplog.records if row.name == AUDIT]
    assert audited.__dict__["facts"] == {
        "volume": "pv-1",
        "owner": "u-2",
        "claimed_by": "u-1",
        "workspace": "mine",
        "namespace": SPACE,
    }


def test_deleting_a_claim_does_not_change_another_owners_volume(shelf: FakeApiServer) -> None:
    somebody_elses(shelf)
    before, claim = shelf.find(VOLUMES, "pv-1"), shelf.find(CLAIMS, "mine", SPACE)
    assert claim is not None
    now = datetime(2026, 11, 1, tzinfo=UTC)
    assert run(delete_workspace, shelf, claim, timedelta(days=1), now) == "done"
    assert shelf.find(CLAIMS, "mine", SPACE) is None
    assert shelf.find(VOLUMES, "pv-1") == before
