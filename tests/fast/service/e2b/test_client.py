"""The real `e2b` client against the control API: each method that it has, and how it sees what is refused."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest
from e2b import (
    AsyncSandbox,
    Sandbox,
    SandboxException,
    SandboxQuery,
    SandboxState,
    Template,
)
from e2b.exceptions import AuthenticationException, NotFoundException, RateLimitException, SandboxNotFoundException

from agentenv.core.gateway.access_tokens import access_token, epoch_of
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.e2b.sandboxes import ENVD_VERSION
from agentenv.service.http.auth.rate_limits import RateLimiter
from tests.fast.service.e2b.conftest import DOMAIN, SECRET, Service


def _seconds_left(info: Any) -> float:
    return (info.end_at - dt.datetime.now(dt.UTC)).total_seconds()


def test_create_without_arguments_is_a_session_of_the_first_class(service: Service) -> None:
    sandbox = Sandbox.create()
    labels = service.claim(sandbox.sandbox_id)["metadata"]["labels"]
    assert (labels["sandbox.users.io/class"], labels["sandbox.users.io/mode"]) == ("standard", "session")
    assert (sandbox.sandbox_domain, str(sandbox._envd_version)) == (DOMAIN, ENVD_VERSION)
    uid = service.claim(sandbox.sandbox_id)["metadata"]["uid"]
    epoch = epoch_of(Workspace(sandbox.sandbox_id, "u", "standard", "session", "running", claim_uid=uid))
    assert sandbox._envd_access_token == access_token(SECRET, epoch)
    assert sandbox.traffic_access_token == access_token(SECRET, epoch, "traffic")
    assert sandbox.get_host(3000) == f"3000-{sandbox.sandbox_id}.{DOMAIN}"
    assert Sandbox.create().sandbox_id != sandbox.sandbox_id


def test_info_has_what_the_creation_named(service: Service) -> None:
    metadata = {"Any key / ü": "any value & =", "empty": ""}
    sandbox = Sandbox.create("standard", timeout=600, metadata=metadata, envs={"TOKEN": "x"})
    info = sandbox.get_info()
    assert (info.sandbox_id, info.template_id, info.name) == (sandbox.sandbox_id, "standard", "standard")
    assert (info.metadata, info.state, info.cpu_count, info.memory_mb) == (metadata, SandboxState.RUNNING, 2, 1024)
    assert 590 < _seconds_left(info) <= 600
    assert (info.lifecycle, info.allow_internet_access) == ({"on_timeout": "kill", "auto_resume": False}, True)
    assert service.sandboxes.variables[sandbox.sandbox_id] == {"TOKEN": "x"}
    assert info.sandbox_domain == DOMAIN
    assert Sandbox.get_info(sandbox.sandbox_id) == info


def test_a_sandbox_is_not_idle_before_its_timeout(service: Service) -> None:
    short, long = Sandbox.create("offline", timeout=30), Sandbox.create("offline", timeout=600)
    annotations = [service.claim(each.sandbox_id)["metadata"]["annotations"] for each in (short, long)]
    assert [each.get("sandbox.users.io/idle-after") for each in annotations] == [None, "600"]
    long.set_timeout(1200)
    assert service.claim(long.sandbox_id)["metadata"]["annotations"]["sandbox.users.io/idle-after"] == "1200"


def test_kill_destroys_at_once(service: Service) -> None:
    sandbox = Sandbox.create()
    assert sandbox.kill()
    assert sandbox.sandbox_id not in service.claims()
    volumes = [row for key, row in service.stage.server.objects.items() if key[0] == "persistentvolumes"]
    labels = next(
        row["metadata"]["labels"]
        for row in volumes
        if row["metadata"].get("labels", {}).get("sandbox.users.io/workspace") == sandbox.sandbox_id
    )
    assert labels["sandbox.users.io/destroy-requested"] == "true"
    assert not sandbox.kill()
    assert not Sandbox.kill("w-aaaaaaaaaaaaaaaaaaaaaaaaaa")
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect(sandbox.sandbox_id)


def test_the_timeout_is_the_life(service: Service) -> None:
    sandbox = Sandbox.create(timeout=60)
    sandbox.set_timeout(3600)
    assert 3590 < _seconds_left(sandbox.get_info()) <= 3600
    sandbox.set_timeout(10)  # earlier, too
    assert _seconds_left(sandbox.get_info()) <= 10
    sandbox.connect(timeout=5)  # never earlier
    assert 5 < _seconds_left(sandbox.get_info()) <= 10
    sandbox.connect(timeout=100)
    assert 90 < _seconds_left(sandbox.get_info()) <= 100
    sandbox.set_timeout(0)
    for gone in (sandbox.get_info, sandbox.connect, sandbox.pause, lambda: sandbox.set_timeout(60)):
        with pytest.raises(SandboxNotFoundException):
            gone()
    assert sandbox.sandbox_id not in {each.sandbox_id for each in Sandbox.list().next_items()}
    assert sandbox.kill()  # what the loop has not deleted yet


@pytest.mark.parametrize("timeout", [-1, 91 * 86_400, 10**12])
def test_a_timeout_beyond_the_class_is_refused(service: Service, timeout: int) -> None:
    with pytest.raises(SandboxException, match=r"^400: .*timeout") as refused:
        Sandbox.create(timeout=timeout)
    assert refused.value.status_code == 400


def test_pause_and_connect(service: Service) -> None:
    sandbox = Sandbox.create(timeout=60)
    assert sandbox.pause()
    assert not sandbox.pause()
    assert sandbox.get_info().state == SandboxState.PAUSED
    with pytest.raises(SandboxNotFoundException):
        sandbox.set_timeout(60)
    same = Sandbox.connect(sandbox.sandbox_id, timeout=600)
    assert same._envd_access_token == sandbox._envd_access_token
    info = same.get_info()
    assert info.state == SandboxState.RUNNING
    assert 590 < _seconds_left(info) <= 600
    with pytest.raises(SandboxNotFoundException):
        Sandbox.pause("w-aaaaaaaaaaaaaaaaaaaaaaaaaa")


def test_a_paused_sandbox_outlives_its_timeout(service: Service) -> None:
    sandbox = Sandbox.create(timeout=60)
    sandbox.pause()
    service.claim(sandbox.sandbox_id, deadline="2026-01-01T00:00:00Z")
    assert sandbox.get_info().state == SandboxState.PAUSED
    sandbox.connect(timeout=30)
    assert 20 < _seconds_left(sandbox.get_info()) <= 30


def test_a_timeout_can_pause(service: Service) -> None:
    sandbox = Sandbox.create(timeout=60, lifecycle={"on_timeout": "pause", "auto_resume": True})
    assert sandbox.get_info().lifecycle == {"on_timeout": "pause", "auto_resume": True}
    sandbox.set_timeout(0)
    assert sandbox.get_info().state == SandboxState.PAUSED
    assert sandbox.connect().get_info().state == SandboxState.RUNNING


def test_memory_is_not_snapshotted_and_a_request_for_it_is_refused(service: Service) -> None:
    sandbox = Sandbox.create()
    with pytest.raises(SandboxException, match=r"no memory"):
        sandbox.pause(mode="full")
    assert sandbox.pause(mode="filesystem")
    assert sandbox.connect(on_resume="reboot").get_info().state == SandboxState.RUNNING
    with pytest.raises(SandboxException, match=r"no memory"):
        Sandbox.create(lifecycle={"on_timeout": {"action": "pause", "mode": "full"}})


def test_mode_and_key_name_one_workspace(service: Service) -> None:
    first = Sandbox.create(metadata={"mode": "agent", "key": "builder", "more": "x"}, timeout=60)
    labels = service.claim(first.sandbox_id)["metadata"]["labels"]
    assert labels["sandbox.users.io/mode"] == "agent"
    assert first.get_info().lifecycle == {"on_timeout": "pause", "auto_resume": True}
    first.pause()
    again = Sandbox.create(metadata={"mode": "agent", "key": "builder"}, timeout=600)
    assert again.sandbox_id == first.sandbox_id
    assert again.get_info().state == SandboxState.RUNNING
    other = Sandbox.create(metadata={"mode": "user", "key": ""})
    assert service.claim(other.sandbox_id)["metadata"]["labels"]["sandbox.users.io/mode"] == "user"
    # Without both they are the caller's own data.
    assert Sandbox.create(metadata={"key": "builder"}).sandbox_id != first.sandbox_id
    assert Sandbox.create(metadata={"mode": "agent"}).sandbox_id != first.sandbox_id
    with pytest.raises(SandboxException, match=r"^400: .*mode user"):
        Sandbox.create("offline", metadata={"mode": "user", "key": "k"})
    Sandbox.create("offline", metadata={"mode": "session", "key": "k"})
    with pytest.raises(SandboxException, match=r"^409: .*different request"):
        Sandbox.create("standard", metadata={"mode": "session", "key": "k"})


def test_an_idempotency_key_returns_the_same_sandbox(service: Service) -> None:
    first = Sandbox.create(idempotency_key="abc-1", timeout=60)
    assert Sandbox.create(idempotency_key="abc-1", timeout=90).sandbox_id == first.sandbox_id
    with pytest.raises(SandboxException, match=r"^409: "):
        Sandbox.create("offline", idempotency_key="abc-1")


def test_lists_have_filters_and_pages(service: Service) -> None:
    sandboxes = [Sandbox.create(metadata={"team": "a&b=ü", "n": str(n % 2)}) for n in range(5)]
    ids = [each.sandbox_id for each in sandboxes]
    sandboxes[0].pause()
    sandboxes[1].kill()
    alive = [ids[0], *ids[2:]]
    assert [each.sandbox_id for each in Sandbox.list().next_items()] == alive[::-1]
    assert [each.sandbox_id for each in Sandbox.list(order="asc").next_items()] == alive

    def found(**query: Any) -> list[str]:
        return [each.sandbox_id for each in Sandbox.list(SandboxQuery(**query), order="asc").next_items()]

    assert found(state=[SandboxState.PAUSED]) == ids[:1]
    assert found(state=[SandboxState.RUNNING]) == ids[2:]
    assert found(state=[SandboxState.RUNNING, SandboxState.PAUSED]) == alive
    assert found(metadata={"team": "a&b=ü", "n": "0"}) == [ids[0], ids[2], ids[4]]
    assert found(metadata={"team": "a"}) == []
    assert found(template="standard") == alive
    assert found(template="base") == alive
    assert found(template="offline") == []
    assert found(started_after=Sandbox.get_info(ids[3]).started_at) == ids[3:]
    pages = Sandbox.list(limit=3, order="asc")
    assert [each.sandbox_id for each in pages.next_items()] == alive[:3]
    assert pages.has_next
    token = pages.next_token
    assert [each.sandbox_id for each in pages.next_items()] == alive[3:]
    assert not pages.has_next
    rest = Sandbox.list(limit=3, order="asc", next_token=token).next_items()
    assert [each.sandbox_id for each in rest] == alive[3:]
    with pytest.raises(SandboxException, match=r"^400: nextToken"):
        Sandbox.list(next_token="nonsense").next_items()
    with pytest.raises(SandboxException, match=r"^400: "):
        Sandbox.list(limit=1000).next_items()


def test_metrics_are_the_current_ones(service: Service) -> None:
    sandbox = Sandbox.create()
    [metric] = sandbox.get_metrics()
    assert (metric.cpu_count, metric.cpu_used_pct, metric.mem_used, metric.disk_total) == (2, 12.5, 5, 0)
    assert sandbox.get_metrics(start=dt.datetime.now(dt.UTC)) == []
    # A sandbox that sees the whole node has no more than its class gives it.
    service.sandboxes.measured = {**service.sandboxes.measured, "cpu_count": 64, "mem_total": 1 << 40}
    [metric] = sandbox.get_metrics()
    info = sandbox.get_info()
    assert (metric.cpu_count, metric.mem_total) == (info.cpu_count, info.memory_mb << 20)
    service.sandboxes.away = True
    assert sandbox.get_metrics() == []
    sandbox.pause()
    assert sandbox.get_metrics() == []
    with pytest.raises(SandboxNotFoundException):
        Sandbox.get_metrics("w-aaaaaaaaaaaaaaaaaaaaaaaaaa")


def test_variables_are_those_that_a_program_can_start_with(service: Service) -> None:
    variables = {"any.name-of a": "x", "empty": "", "long": "x" * 100_000, **{f"V{n}": "\n" for n in range(1000)}}
    sandbox = Sandbox.create(envs=variables)
    assert service.sandboxes.variables[sandbox.sandbox_id] == variables
    with pytest.raises(SandboxException, match=r"^400: .*more than 128 KiB; write it to a file"):
        Sandbox.create(envs={"TOO_LONG": "x" * 131_072})


def test_variables_that_a_sandbox_refuses_fail_the_creation(service: Service) -> None:
    service.sandboxes.away = True
    before = service.claims()
    with pytest.raises(Exception, match=r"^503: .*failed to start"):
        Sandbox.create(envs={"A": "b"}, retries=0)
    assert service.claims() == before


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"allow_internet_access": False}, "reach the internet"),
        ({"template": "offline", "allow_internet_access": True}, "do not reach the internet"),
        ({"network": {"deny_out": ["0.0.0.0/0"]}}, "reach the internet"),
        ({"network": {"deny_out": ["192.0.2.0/24"]}}, "network of a sandbox"),
        ({"template": "offline", "network": {"deny_out": ["0.0.0.0/0"], "allow_out": ["1.1.1.1"]}}, "network of a"),
        ({"network": {"allow_public_traffic": True}}, "private until"),
        ({"mcp": {"github": {}}, "template": "standard"}, "`mcp` is not offered"),
        ({"iam": {"tokens": {"aws": {"audience": "sts", "token_type": "JWT-SVID"}}}}, "`iam` is not offered"),
        ({"volume_mounts": {"/mnt": "data"}}, "`volumeMounts` is not offered"),
        ({"envs": {"": "x"}}, "envVars"),
        ({"envs": {"a=b": "x"}}, "envVars"),
        ({"envs": {"NUL": "x\0"}}, "envVars"),
        ({"metadata": {"large": "x" * 20_000}}, "metadata"),
    ],
    ids=str,
)
def test_what_a_class_does_not_have_is_refused_with_the_way_out(
    service: Service, options: dict[str, Any], why: str
) -> None:
    before = service.claims()
    with pytest.raises(SandboxException, match=why) as refused:
        Sandbox.create(**options)
    assert refused.value.status_code == 400
    assert service.claims() == before


def test_what_a_class_has_anyway_is_accepted(service: Service) -> None:
    Sandbox.create("standard", allow_internet_access=True, network={"allow_public_traffic": False}, secure=True)
    Sandbox.create("offline", allow_internet_access=False)
    Sandbox.create("offline", network={"deny_out": ["0.0.0.0/0"], "allow_public_traffic": False})


@pytest.mark.parametrize("client", ["e2b-python-sdk/2.0.0", "e2b-js-sdk/2.50.0 e2b-code-interpreter/2.1.0"])
def test_what_older_clients_always_send_is_no_request(service: Service, client: str) -> None:
    """Clients before 2.51 allow the internet, keep memory and kill at a timeout unless their caller says otherwise."""
    headers = {"User-Agent": client}
    sandbox = Sandbox.create("offline", allow_internet_access=True, api_headers=headers)
    assert sandbox.get_info().allow_internet_access is False
    assert sandbox.pause(mode="full", api_headers=headers)
    desk: dict[str, Any] = {"metadata": {"mode": "user", "key": client}, "api_headers": headers}
    again = Sandbox.create(lifecycle={"on_timeout": "kill", "auto_resume": False}, **desk)
    assert again.get_info().lifecycle == {"on_timeout": "pause", "auto_resume": True}
    memory: Any = {"on_timeout": {"action": "pause", "mode": "full"}}
    paused = Sandbox.create(lifecycle=memory, api_headers=headers).get_info()
    assert paused.lifecycle == {"on_timeout": "pause", "auto_resume": False}
    with pytest.raises(SandboxException, match=r"reach the internet"):
        Sandbox.create("standard", allow_internet_access=False, api_headers=headers)
    with pytest.raises(SandboxException, match=r"do not reach the internet"):
        Sandbox.create("offline", allow_internet_access=True, api_headers={"User-Agent": "e2b-js-sdk/2.51.0"})


def test_unknown_and_forbidden_templates(service: Service) -> None:
    for template, status in (("nothing", 404), ("team/name", 404), ("standard:unknown", 404), ("secret", 403)):
        with pytest.raises(SandboxException, match=f"^{status}: ") as refused:
            Sandbox.create(template)
        assert refused.value.status_code == status
    assert Sandbox.create("standard:stable").get_info().template_id == "standard"


def test_the_default_template_exists_where_a_creation_finds_one(service: Service) -> None:
    Sandbox.create("base")
    assert Template.exists("base")
    assert Template.exists("standard")
    assert not Template.exists("nothing")


def test_snapshots_forks_networks_and_templates_are_not_offered(service: Service) -> None:
    sandbox = Sandbox.create()
    with pytest.raises(SandboxException, match=r"^501: snapshots"):
        sandbox.create_snapshot()
    with pytest.raises(SandboxException, match=r"^501: snapshots"):
        Sandbox.list_snapshots().next_items()
    with pytest.raises(SandboxException, match=r"^501: snapshots"):
        sandbox.fork()
    with pytest.raises(SandboxException, match=r"^501: the network"):
        sandbox.update_network({"deny_out": ["1.1.1.1/32"]})
    with pytest.raises(Exception, match=r"501: templates are the classes"):
        Template.build(Template().from_image("debian"), alias="mine")
    assert Template.exists("standard")
    assert not Template.exists("nothing")


@pytest.mark.parametrize("id_", ["nothing", "Nothing_Of.Ours", "x" * 300])
def test_sandbox_that_cannot_exist_is_not_found(service: Service, id_: str) -> None:
    assert not Sandbox.kill(id_)
    for act in (Sandbox.get_info, Sandbox.connect, Sandbox.pause, Sandbox.get_metrics):
        with pytest.raises(SandboxNotFoundException):
            act(id_)
    with pytest.raises(SandboxNotFoundException):
        Sandbox.set_timeout(id_, 60)


def test_what_is_not_offered_of_a_killed_sandbox_is_not_found(service: Service) -> None:
    sandbox = Sandbox.create()
    sandbox.kill()
    with pytest.raises(SandboxNotFoundException):
        sandbox.fork()
    with pytest.raises(SandboxNotFoundException):
        sandbox.create_snapshot()
    with pytest.raises(SandboxNotFoundException):
        sandbox.update_network({"deny_out": ["1.1.1.1/32"]})


def test_keys_that_are_not_valid(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Sandbox.create()
    for key in ("e2b_" + "0" * 52, "nonsense"):
        with pytest.raises(AuthenticationException, match=r"401"):
            Sandbox.create(api_key=key)
        with pytest.raises(AuthenticationException):
            Sandbox.list(api_key=key).next_items()
        with pytest.raises(AuthenticationException):
            Sandbox.kill(sandbox.sandbox_id, api_key=key)
    reader = service.key("reader", ("read",))
    assert Sandbox.list(api_key=reader).next_items() == []
    with pytest.raises(SandboxException, match=r"^403: .*scope 'create'"):
        Sandbox.create(api_key=reader)


def test_sandboxes_of_others_are_not_there(service: Service) -> None:
    sandbox, other = Sandbox.create(), service.key("mallory")
    assert sandbox.sandbox_id not in {each.sandbox_id for each in Sandbox.list(api_key=other).next_items()}
    assert not Sandbox.kill(sandbox.sandbox_id, api_key=other)
    for act in (Sandbox.get_info, Sandbox.connect, Sandbox.pause, Sandbox.get_metrics):
        with pytest.raises(NotFoundException):
            act(sandbox.sandbox_id, api_key=other)
    with pytest.raises(SandboxNotFoundException):
        Sandbox.set_timeout(sandbox.sandbox_id, 60, api_key=other)
    assert sandbox.get_info().state == SandboxState.RUNNING


def test_a_limit_of_requests_is_a_rate_limit(service: Service) -> None:
    service.dependencies.limits = RateLimiter(1, clock=lambda: 0.0)
    Sandbox.list(retries=0).next_items()
    with pytest.raises(RateLimitException, match=r"429"):
        Sandbox.list(retries=0).next_items()


def test_the_same_for_asynchronous_programs(service: Service) -> None:
    async def scenario() -> None:
        sandbox = await AsyncSandbox.create(metadata={"a": "b"}, timeout=60)
        assert (await sandbox.get_info()).metadata == {"a": "b"}
        await sandbox.set_timeout(600)
        assert await sandbox.pause()
        same = await AsyncSandbox.connect(sandbox.sandbox_id)
        assert (await same.get_info()).state == SandboxState.RUNNING
        listed = await AsyncSandbox.list(SandboxQuery(metadata={"a": "b"})).next_items()
        assert [each.sandbox_id for each in listed] == [sandbox.sandbox_id]
        assert await same.kill()
        assert not await same.kill()

    asyncio.run(scenario())
