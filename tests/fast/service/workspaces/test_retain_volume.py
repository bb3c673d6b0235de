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
def server() -> FakeApiServer:
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


def slot(server: FakeApiServer, sandbox: str, volume: str, owner: str = "claim-uid") -> None:
    owners = [{"kind": "SandboxClaim", "uid": owner}]
    server.put(SANDBOXES, {"metadata": {"name": sandbox, "namespace": SPACE, "ownerReferences": owners}})
    about = {"name": f"home-{sandbox}", "namespace": SPACE, "uid": f"uid-of-{sandbox}"}
    server.put(VOLUME_CLAIMS, {"metadata": about, "spec": {"volumeName": volume}})
    spec = {"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"uid": f"uid-of-{sandbox}"}}
    server.put(VOLUMES, {"metadata": {"name": volume}, "spec": spec})


def policy(server: FakeApiServer, volume: str = "pv-1") -> str:
    found = server.find(VOLUMES, volume)
    assert found is not None
    return found["spec"]["persistentVolumeReclaimPolicy"]


def retained_annotation(server: FakeApiServer) -> str | None:
    found = server.find(CLAIMS, "mine", SPACE)
    assert found is not None
    return (found["metadata"].get("annotations") or {}).get("sandbox.users.io/kept")


def test_a_claimed_volume_is_retained_with_owner_labels(server: FakeApiServer) -> None:
    (result,) = run(retain_all_volumes, server)
    assert (result.outcome, result.volume) == ("kept", "pv-1")
    assert (policy(server), retained_annotation(server)) == ("Retain", "true")
    volume = server.find(VOLUMES, "pv-1")
    assert volume is not None
    assert volume["metadata"]["labels"] == {"sandbox.users.io/user": "u-1", "sandbox.users.io/workspace": "w-1"}
    before = {key: object_["metadata"]["resourceVersion"] for key, object_ in server.objects.items()}
    assert [result.outcome for result in run(retain_all_volumes, server)] == ["already"]
    assert {key: object_["metadata"]["resourceVersion"] for key, object_ in server.objects.items()} == before


def test_the_volume_of_one_claim_can_be_retained(server: FakeApiServer) -> None:
    claim = server.find(CLAIMS, "mine", SPACE)
    assert claim is not None
    assert run(retain_volume, server, claim).outcome == "kept"
    assert policy(server) == "Retain"


def test_the_volume_of_an_unclaimed_slot_is_not_retained(server: FakeApiServer) -> None:
    slot(server, "box-a-2", "pv-2", owner="a-pool")
    run(retain_all_volumes, server)
    assert policy(server, "pv-2") == "Delete"


@pytest.mark.parametrize("missing", ["sandbox", "owner", "claim", "volume", "binding"])
def test_missing_and_foreign_volumes_are_not_retained(server: FakeApiServer, missing: str) -> None:
    if missing == "sandbox":
        del server.objects[(SANDBOXES, SPACE, "box-a-1")]
    elif missing == "owner":
        slot(server, "box-a-1", "pv-1", owner="another-claim")
    elif missing == "claim":
        del server.objects[(VOLUME_CLAIMS, SPACE, "home-box-a-1")]
    elif missing == "volume":
        del server.objects[(VOLUMES, "", "pv-1")]
    else:
        server.objects[(VOLUMES, "", "pv-1")]["spec"]["claimRef"]["uid"] = "one-before"
    (result,) = run(retain_all_volumes, server)
    assert result.outcome == "waiting"
    assert result.why
    assert retained_annotation(server) is None
    if missing != "volume":
        assert policy(server) == "Delete"


def test_the_volume_of_a_replaced_sandbox_is_retained_too(server: FakeApiServer) -> None:
    run(retain_all_volumes, server)
    slot(server, "mine", "pv-3")
    server.objects[(CLAIMS, SPACE, "mine")]["status"] = {"sandbox": {"name": "mine"}}
    (result,) = run(retain_all_volumes, server)
    assert (result.outcome, result.volume, policy(server, "pv-3")) == ("kept", "pv-3", "Retain")


@pytest.mark.parametrize("change", [1, 2])
def test_an_interrupted_pass_annotates_only_retained_volumes(server: FakeApiServer, change: int) -> None:
    def killed(number: int) -> None:
        if number == change:
            raise Killed

    server.before = killed
    with pytest.raises(Killed):
        run(retain_all_volumes, server)
    assert retained_annotation(server) is None
    assert [result.outcome for result in run(retain_all_volumes, server)] == ["kept"]
    assert (policy(server), retained_annotation(server)) == ("Retain", "true")


@pytest.mark.parametrize("change", [1, 2])
def test_two_passes_at_once_have_the_result_of_one(server: FakeApiServer, change: int) -> None:
    def beside(number: int) -> None:
        if number == change:
            server.before = lambda _: None
            run(retain_all_volumes, server)

    server.before = beside
    assert [result.outcome for result in run(retain_all_volumes, server)] == ["overtaken"]
    assert (policy(server), retained_annotation(server)) == ("Retain", "true")


def test_a_refused_volume_does_not_stop_the_others(server: FakeApiServer) -> None:
    second = {"name": "second", "namespace": SPACE, "uid": "second-uid"}
    spec = {"warmPoolRef": {"name": "box-a"}}
    server.put(CLAIMS, {"metadata": second, "spec": spec, "status": {"sandbox": {"name": "box-a-9"}}})
    slot(server, "box-a-9", "pv-9", owner="second-uid")

    def refusing(number: int) -> None:
        if number == 1:
            raise KubeApiError("not by you")

    server.before = refusing
    first, other = run(retain_all_volumes, server)
    assert (first.outcome, first.why, retained_annotation(server)) == ("refused", "not by you", None)
    assert (other.outcome, policy(server, "pv-9")) == ("kept", "Retain")


def test_a_transient_error_is_not_a_refusal(server: FakeApiServer) -> None:
    def busy(_: int) -> None:
        raise KubeApiError("too many requests", 429)

    server.before = busy
    with pytest.raises(KubeApiError):
        run(retain_all_volumes, server)


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


def test_a_retention_pass_keeps_no_documents_in_memory(server: FakeApiServer) -> None:
    streaming = Streaming()
    streaming.objects = server.objects
    slot(streaming, "box-a-1", "pv-1")
    tracemalloc.start()
    try:
        assert [result.outcome for result in run(retain_all_volumes, streaming)] == ["kept"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert streaming.names(NAMESPACES) == ["sandbox-box"]
    # The documents themselves are some 13 kB each.
    assert peak < 6000 * 2000


@pytest.mark.parametrize("storage", ["none", "scratch", ""])
def test_a_class_without_volumes_of_its_own_is_left_alone(server: FakeApiServer, storage: str) -> None:
    server.objects[(CONFIGURATIONS, SPACE, "sandbox-class")]["data"]["storage"] = storage
    assert run(retain_all_volumes, server) == []


def give_to_another_owner(server: FakeApiServer) -> None:
    slot(server, "box-a-1", "pv-1")
    volume = server.objects[(VOLUMES, "", "pv-1")]
    volume["metadata"]["labels"] = {"sandbox.users.io/user": "u-2", "sandbox.users.io/workspace": "w-2"}
    volume["spec"]["persistentVolumeReclaimPolicy"] = "Retain"


def test_another_owners_volume_is_not_handed_over_or_changed(
    server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    give_to_another_owner(server)
    before = server.find(VOLUMES, "pv-1")
    with caplog.at_level("INFO", AUDIT):
        (result,) = run(retain_all_volumes, server)
    assert (result.outcome, result.volume, result.foreign) == ("refused", "pv-1", True)
    # Whoever asked is told of it, and not of whom.
    assert "another owner" in result.why
    assert "u-2" not in result.why
    assert retained_annotation(server) is None
    assert server.find(VOLUMES, "pv-1") == before
    (audited,) = [row for row in caplog.records if row.name == AUDIT]
    assert audited.__dict__["facts"] == {
        "volume": "pv-1",
        "owner": "u-2",
        "claimed_by": "u-1",
        "workspace": "mine",
        "namespace": SPACE,
    }


def test_deleting_a_claim_does_not_change_another_owners_volume(server: FakeApiServer) -> None:
    give_to_another_owner(server)
    before, claim = server.find(VOLUMES, "pv-1"), server.find(CLAIMS, "mine", SPACE)
    assert claim is not None
    now = datetime(2026, 11, 1, tzinfo=UTC)
    assert run(delete_workspace, server, claim, timedelta(days=1), now) == "done"
    assert server.find(CLAIMS, "mine", SPACE) is None
    assert server.find(VOLUMES, "pv-1") == before
