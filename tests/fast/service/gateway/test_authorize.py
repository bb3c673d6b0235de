"""Authorization for the ports of a workspace; others learn nothing, and no credential of ours is forwarded."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agentenv.core.gateway.access_tokens import signature
from agentenv.core.workspaces.grants import Grants
from agentenv.core.workspaces.workspace import PortSharing, Timeout
from agentenv.service.gateway.authorize import Destination
from agentenv.service.gateway.entry import Allow, Decision, Deny, EntryRequest
from agentenv.service.http.auth.callers import Caller, with_implied_roles
from agentenv.service.http.auth.rate_limits import RateLimiter
from tests.fast.service.gateway.entrance import (
    DOMAIN,
    MINE,
    NOBODYS,
    THEIRS,
    WORKSPACES,
    Entrance,
    allowed,
    denied,
    entrance,
)

SANDBOX = f"sandbox.{DOMAIN}"
UNKNOWN = "w-zzzzzzzzzzzzzzzzzzzzzzzzzz"


def api(id_: str) -> str:
    return f"49983-{id_}.{WORKSPACES}"


def port(id_: str, number: int = 3000) -> str:
    return f"{number}-{id_}.{WORKSPACES}"


def run(gate: Entrance, host: str, target: str = "/", method: str = "GET", **headers: str) -> Decision:
    return asyncio.run(gate.check(host, target, method, **headers))


def scope(decision: Decision) -> str:
    """Return the scope of the token that a decision has for the pod."""
    return allowed(decision).headers["x-workspace-token"].split("/")[2]


def key_of(gate: Entrance, owner: str, *scopes: Any, teams: frozenset[str] = frozenset()) -> str:
    caller = Caller(owner, with_implied_roles("user"), "token", teams=teams)
    return asyncio.run(gate.keys.create(caller, "k", scopes, timedelta(hours=1), []))[1]


def test_the_owner_reaches_the_api_and_any_port_of_the_pod() -> None:
    gate = entrance()
    decision = allowed(run(gate, api(MINE), "/files?path=a", **gate.bearer("u-me")))
    assert decision.headers["x-gateway-destination"] == "10.0.0.7:49983"
    assert decision.headers["x-workspace-token"].startswith("pod-aaa/claim-aaa/api/")
    assert "x-workspace-port" not in decision.headers
    assert decision.remove == ("authorization",)
    decision = allowed(run(gate, port(MINE), **gate.bearer("u-me")))
    assert decision.headers["x-workspace-port"] == "3000"
    assert scope(decision) == "port:3000"
    assert gate.used == [MINE, MINE]


def test_ssh_has_a_token_for_ssh_alone_and_readers_have_none() -> None:
    gate = entrance()
    assert scope(run(gate, api(MINE), "/ssh", **gate.bearer("u-me"))) == "ssh"
    assert scope(run(gate, api(MINE), "/ssh/host-key", **gate.bearer("u-me"))) == "ssh"
    assert scope(run(gate, port(MINE), "/ssh", **gate.bearer("u-me"))) == "port:3000"
    reader = key_of(gate, "u-me", "read")
    assert scope(run(gate, api(MINE), "/ssh", **{"x-api-key": reader})) == "look"


@pytest.mark.parametrize(
    "host",
    [
        DOMAIN,
        f"api.{DOMAIN}",
        f"console.{DOMAIN}",
        f"3000-{MINE}.{DOMAIN}",
        f"3000-{MINE}.{WORKSPACES}.",
        f"3000-{MINE}.{WORKSPACES}.evil.example",
        f"3000-{MINE}%2e{WORKSPACES}",
        f"x.3000-{MINE}.{WORKSPACES}",
        f"3000-{MINE}.{WORKSPACES}:99999",
        f"03000-{MINE}.{WORKSPACES}",
        f"70000-{MINE}.{WORKSPACES}",
        f"3000-{MINE}\u3002{WORKSPACES}",
        f"xn--3000-{MINE}.{WORKSPACES}",
        f"{MINE}.{WORKSPACES}",
        "10.0.0.7",
        "[::1]",
        "",
        f"user@{port(MINE)}",
    ],
)
def test_hosts_without_an_endpoint_are_not_found(host: str) -> None:
    gate = entrance()
    assert denied(run(gate, host, **gate.bearer("u-me"))).status == 404


def test_hosts_are_compared_without_case_and_port() -> None:
    gate = entrance()
    assert scope(run(gate, port(MINE).upper() + ":8443", **gate.bearer("u-me"))) == "port:3000"


CREDENTIALS: dict[str, Any] = {
    "none": lambda _: {},
    "another person": lambda gate: gate.bearer("u-me"),
    "an operator without the right": lambda gate: gate.bearer("u-3", groups=["ops-readers"]),
    "a key": lambda gate: {"x_api_key": key_of(gate, "u-me", "read", "use", "wake", "create", "admin")},
    "a token of mine": lambda gate: {"x_access_token": gate.access_token(MINE)},
    "a traffic token of mine": lambda gate: {"e2b_traffic_access_token": gate.access_token(MINE, "traffic")},
    "a guessed token": lambda _: {"x_access_token": "0" * 64},
    "an odd token": lambda _: {"x_access_token": "\u00e9"},
    "a planted cookie": lambda _: {"cookie": "__Host-workspace=x; __Host-link=y"},
}


@pytest.mark.parametrize("credential", CREDENTIALS)
@pytest.mark.parametrize("page", [False, True])
@pytest.mark.parametrize("signs_in", [False, True])
def test_foreign_and_missing_workspaces_have_the_same_response(credential: str, *, page: bool, signs_in: bool) -> None:
    gate = entrance(sign_in=signs_in)
    headers = CREDENTIALS[credential](gate)
    headers |= {"sec_fetch_mode": "navigate", "cookie": "__Host-browser=b"} if page and "cookie" not in headers else {}
    states = ("running", "suspended", "creating", "failed", "deleting", "deleted")
    for host, extra in (
        (api, {}),
        (port, {}),
        (lambda _: SANDBOX, {"e2b_sandbox_port": "3000"}),
        (lambda _: SANDBOX, {}),
    ):

        def answer(id_: str, host: Any = host, extra: dict[str, str] = extra) -> str:
            named = {"e2b_sandbox_id": id_} if "sandbox." in host(id_) else {}
            decision = denied(run(gate, host(id_), **headers, **extra, **named))
            return repr(decision).replace(id_, "ID")

        missing = answer(NOBODYS)
        for state in states:
            gate.directory.put(THEIRS, "u-other", state)
            assert answer(THEIRS) == missing, state
    assert gate.directory.resumed == []


def test_sharers_use_or_look() -> None:
    gate = entrance()
    gate.directory.change(THEIRS, shared={"u-me": "ro"})
    mine = gate.bearer("u-me")
    assert scope(run(gate, api(THEIRS), **mine)) == "look"
    assert denied(run(gate, port(THEIRS), **mine)).status == 403
    gate.directory.change(THEIRS, shared={"u-me": "rw"})
    assert scope(run(gate, api(THEIRS), **mine)) == "api"
    assert scope(run(gate, port(THEIRS), **mine)) == "port:3000"
    gate.directory.change(THEIRS, shared={"team:research": "rw"})
    assert denied(run(gate, port(THEIRS), **mine)).status == 404
    assert scope(run(gate, port(THEIRS), **gate.bearer("u-me", groups=["research"]))) == "port:3000"
    # A person cannot be taken for a team, nor a team for a person.
    assert denied(run(gate, port(THEIRS), **gate.bearer("team:research"))).status in {401, 404}


def test_a_shared_port_opens_that_port_alone() -> None:
    gate = entrance()
    team = gate.bearer("u-me", groups=["research"])
    for sharing, headers in (("public", {}), ("public", gate.bearer("u-me")), ("team", team)):
        shared = PortSharing(sharing, ("research",))  # type: ignore[arg-type]
        gate.directory.change(THEIRS, ports={3000: shared})
        assert scope(run(gate, port(THEIRS), **headers)) == "port:3000"
        assert denied(run(gate, port(THEIRS, 3001), **headers)).status == 404
        assert denied(run(gate, api(THEIRS), **headers)).status == 502
    assert denied(run(gate, port(THEIRS), **gate.bearer("u-me", groups=["sales"]))).status == 404


def test_link_to_attach_enters_its_workspace_alone() -> None:
    gate = entrance()
    gate.directory.put("w-" + "o" * 26, "u-me")
    person = Caller("u-me", with_implied_roles("user"), "token", teams=frozenset({"research"}))

    def link(*scopes: Any) -> str:
        hour = timedelta(hours=1)
        return asyncio.run(gate.keys.create(person, "chat", scopes, hour, (), workspace=MINE))[1]

    use, look = link("read", "use"), link("read")
    assert scope(run(gate, api(MINE), x_api_key=use)) == "api"
    assert scope(run(gate, port(MINE), x_api_key=use)) == "port:3000"
    assert scope(run(gate, api(MINE), x_api_key=look)) == "look"
    assert denied(run(gate, port(MINE), x_api_key=look)).status == 403
    for host in (api("w-" + "o" * 26), api(THEIRS), api(UNKNOWN)):
        assert denied(run(gate, host, x_api_key=use)).status == 502
    # Its bearer is no member of the teams of its creator.
    gate.directory.change(THEIRS, ports={3000: PortSharing("team", ("research",))})
    assert denied(run(gate, port(THEIRS), x_api_key=use)).status == 404


def test_only_granted_ports_are_opened() -> None:
    gate = entrance()
    gate.directory.change(MINE, grants=Grants(ports=frozenset({3000})))
    assert allowed(run(gate, port(MINE), **gate.bearer("u-me")))
    assert scope(run(gate, api(MINE), **gate.bearer("u-me"))) == "api"
    refused = denied(run(gate, port(MINE, 3001), **gate.bearer("u-me")))
    assert (refused.status, "port 3001 was not granted" in refused.body) == (403, True)
    assert denied(run(gate, port(MINE, 3001))).status == 404


@pytest.mark.parametrize("sharing", ["team", "link", "public"])
def test_a_class_that_allows_less_closes_ports_that_are_shared(sharing: Any) -> None:
    gate = entrance(sharing=("private",))
    gate.directory.change(THEIRS, ports={3000: PortSharing(sharing, ("research",))})
    assert denied(run(gate, port(THEIRS), **gate.bearer("u-me", groups=["research"]))).status == 404


def test_requests_with_tokens_are_limited_for_each_workspace() -> None:
    gate = entrance(requests=RateLimiter(2))
    mine, theirs = ({"x_access_token": gate.access_token(id_)} for id_ in (MINE, THEIRS))
    assert [type(run(gate, api(MINE), **mine)) for _ in range(3)] == [Allow, Allow, Deny]
    assert allowed(run(gate, api(THEIRS), **theirs))


def test_the_port_of_workspaced_is_never_shared() -> None:
    gate = entrance()
    gate.directory.change(THEIRS, ports={49983: PortSharing("public")})
    assert denied(run(gate, api(THEIRS))).status == 502


def test_a_key_enters_with_its_scopes() -> None:
    gate = entrance()
    use, look, none = key_of(gate, "u-me", "use"), key_of(gate, "u-me", "read"), key_of(gate, "u-me", "wake", "create")
    assert scope(run(gate, api(MINE), x_api_key=use)) == "api"
    assert scope(run(gate, port(MINE), authorization=f"Bearer {use}")) == "port:3000"
    assert scope(run(gate, api(MINE), x_api_key=look)) == "look"
    assert denied(run(gate, port(MINE), x_api_key=look)).status == 403
    assert denied(run(gate, api(MINE), x_api_key=none)).status == 502


def test_access_tokens_are_of_one_workspace_and_generation() -> None:
    gate = entrance()
    token, traffic = gate.access_token(MINE), gate.access_token(MINE, "traffic")
    decision = allowed(run(gate, SANDBOX, e2b_sandbox_id=MINE, x_access_token=token))
    assert scope(decision) == "api"
    assert set(decision.remove) == {"x-access-token", "e2b-sandbox-id", "e2b-sandbox-port"}
    assert scope(run(gate, port(MINE), e2b_traffic_access_token=traffic)) == "port:3000"
    assert denied(run(gate, api(MINE), e2b_traffic_access_token=traffic)).status == 502
    assert denied(run(gate, api(MINE), x_access_token=traffic)).status == 502
    assert denied(run(gate, SANDBOX, e2b_sandbox_id=THEIRS, x_access_token=token)).status == 502
    gate.directory.change(MINE, token_generation=1)
    assert denied(run(gate, api(MINE), x_access_token=token)).status == 502
    assert scope(run(gate, api(MINE), x_access_token=gate.access_token(MINE))) == "api"


def test_tokens_end_with_the_share_that_granted_them() -> None:
    gate = entrance()
    gate.directory.change(THEIRS, shared={"u-me": "rw"})
    own, shared = gate.access_token(THEIRS), gate.access_token(THEIRS, shared=True)
    assert own != shared
    for token in (own, shared):
        assert scope(run(gate, api(THEIRS), x_access_token=token)) == "api"
    gate.directory.change(THEIRS, shared={}, share_generation=1)
    assert scope(run(gate, api(THEIRS), x_access_token=own)) == "api"
    assert denied(run(gate, api(THEIRS), x_access_token=shared)).status == 502
    gate.directory.change(THEIRS, shared={"u-me": "rw"})
    assert denied(run(gate, api(THEIRS), x_access_token=shared)).status == 502


def test_tokens_of_a_destroyed_workspace_do_not_open_the_next_of_its_id() -> None:
    gate = entrance()
    former = [gate.access_token(MINE), gate.access_token(MINE, shared=True)]
    expires = int(gate.clock.now().timestamp()) + 60
    signed = signature("/a", "read", "", former[0], expires).replace("+", "%2B")
    link = f"/files?path=/a&signature={signed}&signature_expiration={expires}"
    assert allowed(run(gate, api(MINE), link))
    gate.directory.change(MINE, claim_uid="claim-of-the-next")
    gate.directory.endpoints[MINE] = replace(gate.directory.endpoints[MINE], claim_uid="claim-of-the-next")
    for token in former:
        assert denied(run(gate, api(MINE), x_access_token=token)).status == 502
    assert denied(run(gate, api(MINE), link)).status == 401
    assert scope(run(gate, api(MINE), x_access_token=gate.access_token(MINE))) == "api"


@pytest.mark.parametrize("number", ["0", "65536", "-1", "1e3", "", "\u0663", "3000,3001", "99999999999"])
def test_sandbox_header_with_an_unknown_port_is_not_found(number: str) -> None:
    gate = entrance()
    decision = run(gate, SANDBOX, e2b_sandbox_id=MINE, e2b_sandbox_port=number, **gate.bearer("u-me"))
    assert denied(decision).status == 404


def test_a_signed_link_finds_its_workspace_on_one_machine() -> None:
    gate = entrance(signers=lambda: gate.directory.workspaces.values())  # noqa: PLW0108 - it is created below
    expires = int(gate.clock.now().timestamp()) + 60
    signed = signature("/a", "read", "", gate.access_token(MINE), expires).replace("+", "%2B")
    link = f"/files?path=/a&signature={signed}&signature_expiration={expires}"
    assert scope(run(gate, SANDBOX, link)) == "look"
    assert gate.used == [MINE]
    for other in (link.replace("path=/a", "path=/b"), f"{link}&path=/b"):
        assert denied(run(gate, SANDBOX, other)).status == 401
    assert denied(run(gate, SANDBOX, link, "POST")).status == 401
    assert denied(run(gate, SANDBOX, link, e2b_sandbox_id=THEIRS)).status == 401
    gate.clock.seconds = 61
    assert json.loads(denied(run(gate, SANDBOX, link)).body)["message"] == "signature is already expired"
    # Behind a load balancer a link has to name its workspace.
    assert denied(run(entrance(), SANDBOX, link)).status == 404


def test_a_signed_link_opens_its_file_for_its_operation() -> None:
    gate = entrance()
    expires = int(gate.clock.now().timestamp()) + 60
    signed = signature("/a b", "read", "", gate.access_token(MINE), expires)
    query = f"path=%2Fa+b&signature={signed.replace('+', '%2B')}&signature_expiration={expires}"
    opened = allowed(run(gate, api(MINE), f"/files?{query}"))
    assert scope(opened) == "look"
    assert dict(opened.response_headers) == {"access-control-allow-origin": "*"}
    signed_in = run(gate, api(MINE), "/files?path=/b", x_access_token=gate.access_token(MINE))
    assert not allowed(signed_in).response_headers  # pages of other origins read nothing by other credentials
    for target, method in (
        (f"/files?{query}&path=/b", "GET"),
        (f"/files?path=/b&{query}", "GET"),
        (f"/files?%70ath=/b&{query}", "GET"),
        (f"/files?username=root&{query}&username=", "GET"),
        (f"/files?{query}", "POST"),
        (f"/files?{query}&username=root", "GET"),
        (f"/filesystem.Filesystem/Stat?{query}", "GET"),
        (f"/files/compose?{query}", "GET"),
        (f"/files?{query.replace(str(expires), str(expires + 1))}", "GET"),
    ):
        assert denied(run(gate, api(MINE), target, method)).status == (401 if target.startswith("/files?") else 502)
    refused = denied(run(gate, api(MINE), f"/files?{query}", authorization="Basic cm9vdDo="))
    assert (refused.status, json.loads(refused.body)) == (401, {"code": 401, "message": "invalid signature"})
    for foreign in (THEIRS, NOBODYS, UNKNOWN):
        assert denied(run(gate, api(foreign), f"/files?{query}")) == refused
    assert denied(run(gate, port(MINE), f"/files?{query}")).status == 404


def test_expired_link_is_answered_as_such_only_where_it_was_valid() -> None:
    gate = entrance()
    expires = int(gate.clock.now().timestamp()) + 60
    signed = signature("/a b", "read", "", gate.access_token(MINE), expires)
    query = f"path=%2Fa+b&signature={signed.replace('+', '%2B')}&signature_expiration={expires}"
    gate.clock.seconds = 61
    refused = denied(run(gate, api(MINE), f"/files?{query}"))
    assert (refused.status, json.loads(refused.body)) == (401, {"code": 401, "message": "signature is already expired"})
    for host in (api(THEIRS), api(UNKNOWN)):
        assert json.loads(denied(run(gate, host, f"/files?{query}")).body)["message"] == "invalid signature"
    assert scope(run(gate, api(MINE), f"/files?{query}", **gate.bearer("u-me"))) == "api"
    other = query.replace("%2Fa+b", "%2Fc")
    assert json.loads(denied(run(gate, api(MINE), f"/files?{other}")).body)["message"] == "invalid signature"


def test_credentials_of_a_program_reach_it_and_those_of_the_gateway_do_not() -> None:
    gate = entrance()
    gate.directory.change(THEIRS, ports={3000: PortSharing("public")})
    other_audience = gate.bearer("u-me", aud="shop")
    for headers in (
        {"authorization": "Basic dXNlcjpwYXNz"},
        {"authorization": "Bearer something-of-the-program"},
        other_audience,
        {"x_api_key": "sk-of-the-program"},
        {"x_access_token": "of-the-program"},
    ):
        assert allowed(run(gate, port(THEIRS), **headers)).remove == ()
    key = key_of(gate, "u-me", "use")
    assert allowed(run(gate, port(THEIRS), x_api_key=key)).remove == ("x-api-key",)
    asyncio.run(gate.keys.revoke(Caller("u-me", frozenset(), "token"), key[4:16]))
    assert allowed(run(gate, port(THEIRS), x_api_key=key)).remove == ("x-api-key",)
    assert denied(run(gate, api(THEIRS), **other_audience)).status == 401
    assert denied(run(gate, api(NOBODYS), **other_audience)).status == 401


def test_gateway_cookies_are_stripped_and_program_cookies_are_not() -> None:
    gate = entrance()
    gate.directory.change(THEIRS, ports={3000: PortSharing("public")})
    cookie = "a=1; __Host-workspace=x;__Host-link=y ; __Host-browser=z; b=2"
    assert allowed(run(gate, port(THEIRS), cookie=cookie)).headers["cookie"] == "a=1; b=2"
    decision = allowed(run(gate, port(THEIRS), cookie="__Host-workspace=x"))
    assert "cookie" not in decision.headers
    assert decision.remove == ("cookie",)
    assert "cookie" not in allowed(run(gate, port(THEIRS), cookie="a=1")).headers


def test_headers_of_the_gateway_in_a_request_change_nothing() -> None:
    gate = entrance()
    forged = {"x_gateway_destination": "10.0.0.99:1", "x_workspace_token": "t", "x_workspace_port": "1"}
    forged |= {"x_forwarded_host": port(THEIRS), "x_original_host": port(THEIRS), "x_forwarded_for": "127.0.0.1"}
    decision = allowed(run(gate, port(MINE), **forged, **gate.bearer("u-me")))
    assert decision.headers["x-gateway-destination"] == "10.0.0.7:49983"
    assert denied(run(gate, port(THEIRS), **forged, **gate.bearer("u-me"))).status == 404


def test_an_alias_names_a_workspace_with_its_default_port_and_gives_no_right() -> None:
    gate = entrance()
    gate.aliases |= {"shop": (MINE, 8000), "stall": (THEIRS, 8000)}
    mine = gate.bearer("u-me")
    assert scope(run(gate, f"shop.{WORKSPACES}", **mine)) == "port:8000"
    assert scope(run(gate, f"3000-shop.{WORKSPACES}", **mine)) == "port:3000"
    theirs, nobodys = (run(gate, f"{name}.{WORKSPACES}", **mine) for name in ("stall", "nobody"))
    assert denied(theirs) == denied(nobodys)


def test_operators_enter_by_break_glass_alone() -> None:
    gate = entrance()
    operator = gate.bearer("u-ops", groups=["ops"])
    decision = denied(run(gate, port(THEIRS), **operator))
    assert decision.status == 403
    assert "break-glass" in decision.body
    gate.glass.add((THEIRS, "u-ops"))
    assert scope(run(gate, port(THEIRS), **operator)) == "port:3000"
    assert scope(run(gate, api(THEIRS), **operator)) == "api"
    gate.glass = {(THEIRS, "u-me")}
    gate.authorizer._break_glass = lambda workspace, owner: (workspace, owner) in gate.glass
    assert denied(run(gate, port(THEIRS), **gate.bearer("u-me"))).status == 404


def test_requests_of_a_visitor_are_limited_without_touching_others() -> None:
    gate = entrance(requests=RateLimiter(3))
    codes = [type(run(gate, port(MINE), **gate.bearer("u-me"))) for _ in range(4)]
    assert codes == [Allow, Allow, Allow, Deny]
    assert denied(run(gate, port(MINE), **gate.bearer("u-me"))).status == 429
    assert allowed(run(gate, port(THEIRS), **gate.bearer("u-other")))


def test_an_endpoint_of_another_claim_is_not_used() -> None:
    gate = entrance()
    gate.directory.change(MINE, claim_uid="another")
    assert denied(run(gate, port(MINE), **gate.bearer("u-me"))).status == 409


def test_request_is_mapped_to_its_endpoint() -> None:
    gate = entrance()
    request = EntryRequest("GET", SANDBOX, "/", {"e2b-sandbox-id": MINE})
    assert gate.authorizer.destination(request) == Destination(MINE, 49983, is_sandbox_host=True)
    for id_ in ("", "w-1", MINE.upper(), f"{MINE}/../x", f"{MINE}\n"):
        assert gate.authorizer.destination(EntryRequest("GET", SANDBOX, "/", {"e2b-sandbox-id": id_})) is None


@pytest.mark.parametrize(
    ("state", "because"),
    [("suspended", "asked"), ("suspended", "deadline"), ("running", "asked"), ("deleting", None)],
)
def test_a_sandbox_that_is_paused_or_killed_does_not_run_for_its_client(state: Any, because: Any) -> None:
    gate = entrance()
    gate.directory.put(MINE, "u-me", state, suspended_because=because, timeout=Timeout(300, "delete"))
    headers = {"e2b_sandbox_id": MINE, "x_access_token": gate.access_token(MINE)}
    for decision in (run(gate, SANDBOX, **headers), run(gate, api(MINE), **headers)):
        assert denied(decision).status == 502
        assert "was not found" in denied(decision).body
    assert denied(run(gate, port(MINE), **gate.bearer("u-me"))).status in {404, 409}
    assert gate.directory.resumed == []


@pytest.mark.parametrize("because", ["asked", "idle", "deadline"])
def test_traffic_resumes_a_sandbox_that_requested_it(because: Any) -> None:
    gate = entrance()
    timeout = Timeout(300, "suspend", wakes=True)
    gate.directory.put(MINE, "u-me", "suspended", suspended_because=because, timeout=timeout)
    decision = run(gate, SANDBOX, e2b_sandbox_id=MINE, x_access_token=gate.access_token(MINE))
    assert scope(decision) == "api"
    assert gate.directory.resumed == [MINE]


def test_sandbox_is_not_found_after_its_timeout() -> None:
    gate = entrance()
    headers = {"e2b_sandbox_id": MINE, "x_access_token": gate.access_token(MINE)}
    end = gate.clock.now() + timedelta(seconds=1)
    gate.directory.put(MINE, "u-me", timeout=Timeout(300, "delete"), deadline=end)
    assert scope(run(gate, SANDBOX, **headers)) == "api"
    gate.directory.change(MINE, deadline=gate.clock.now())
    assert denied(run(gate, SANDBOX, **headers)).status == 502


def test_programs_enter_a_class_with_approval_by_its_tools_alone() -> None:
    gate = entrance(needs_approval=lambda name: name == "standard")

    async def act() -> None:
        api, port = f"49983-{MINE}.{WORKSPACES}", f"3000-{MINE}.{WORKSPACES}"
        refused = denied(await gate.check(api, x_access_token=gate.access_token(MINE)))
        assert refused.status == 403
        assert "use the tools at /mcp" in refused.body
        allowed(await gate.check(api, **gate.bearer("u-me")))
        allowed(await gate.check(port, **gate.bearer("u-me")))

    asyncio.run(act())
