"""Tests of the hosts that the gateway serves."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentenv.core.gateway.hosts import RESERVED, Host, is_alias, parse_host, port_host
from agentenv.core.workspaces.workspace import ID, workspace_id

DOMAIN, WORKSPACES = "os.example.com", "workspaces.example.net"
OLD_ID, NEW_ID = f"w-{'a' * 26}", f"w-a0{'b' * 26}"

ids = st.from_regex(ID, fullmatch=True)
aliases = st.from_regex(r"[a-z][a-z0-9-]{1,39}[a-z0-9]", fullmatch=True).filter(is_alias)
ports = st.integers(1, 65535)


@pytest.mark.parametrize(
    ("host", "meaning"),
    [
        (DOMAIN, Host("apex")),
        (f"api.{DOMAIN}", Host("api")),
        (f"console.{DOMAIN}", Host("console")),
        (f"sandbox.{DOMAIN}", Host("sandbox")),
        (f"sandbox.{WORKSPACES}", Host("sandbox")),
        (f"3000-{OLD_ID}.{WORKSPACES}", Host("workspace", OLD_ID, 3000)),
        (f"49983-{NEW_ID}.{WORKSPACES}", Host("workspace", NEW_ID, 49983)),
        (f"8080-ann.{WORKSPACES}", Host("workspace", "ann", 8080)),
        (f"ann.{WORKSPACES}", Host("workspace", "ann")),
        (f"ANN.{WORKSPACES.upper()}:443", Host("workspace", "ann")),
    ],
)
def test_host_of_the_gateway_is_parsed(host: str, meaning: Host) -> None:
    assert parse_host(host, DOMAIN, WORKSPACES) == meaning


@pytest.mark.parametrize(
    "host",
    [
        "",
        "example.com",
        f"{DOMAIN}.",
        f"api.{DOMAIN}.",
        f"api.{WORKSPACES}",  # ours, and of the other domain
        f"ann.{DOMAIN}",
        WORKSPACES,
        f"{OLD_ID}.{WORKSPACES}",
        f"0-{OLD_ID}.{WORKSPACES}",
        f"03000-{OLD_ID}.{WORKSPACES}",
        f"65536-{OLD_ID}.{WORKSPACES}",
        f"3000-w-short.{WORKSPACES}",
        f"3000-api.{WORKSPACES}",
        f"3000-.{WORKSPACES}",
        f"-3000-ann.{WORKSPACES}",
        f"3000-ann.x.{WORKSPACES}",
        f"xn--ann.{WORKSPACES}",
        f"ånn.{WORKSPACES}",
        f"K{'a' * 3}.{WORKSPACES}".replace("K", "\u212a"),  # lower() makes a k of the Kelvin sign
        f"ann.{WORKSPACES}:0",
        f"ann.{WORKSPACES}:443:443",
        f"ann.{WORKSPACES}:x",
        f"user@ann.{WORKSPACES}",
        f"ann%2e{WORKSPACES}",
        f"ann.{WORKSPACES}\n",
        "127.0.0.1",
        "[::1]:443",
        f"evil.com#.{WORKSPACES}",
        f"ann.{WORKSPACES}.evil.com",
    ],
)
def test_other_hosts_are_not_parsed(host: str) -> None:
    assert parse_host(host, DOMAIN, WORKSPACES) is None


@given(port=ports, name=st.one_of(ids, aliases))
@example(port=1, name=OLD_ID)
def test_the_host_of_a_port_is_understood_as_that_port(port: int, name: str) -> None:
    host = port_host(port, name, WORKSPACES)
    assert len(host.partition(".")[0]) <= 63
    assert parse_host(host, DOMAIN, WORKSPACES) == Host("workspace", name, port)


@given(alias=aliases)
def test_an_alias_below_the_one_domain_of_both_is_no_host_of_the_service(alias: str) -> None:
    assert parse_host(f"{alias}.{DOMAIN}", DOMAIN, DOMAIN) == Host("workspace", alias)
    assert alias not in RESERVED


@given(text=st.text(alphabet=string.printable, max_size=80), below=st.sampled_from((DOMAIN, WORKSPACES)))
def test_a_host_is_at_most_one_label_below_a_domain(text: str, below: str) -> None:
    host = parse_host(f"{text}.{below}", DOMAIN, WORKSPACES)
    assert host is None or text.replace("-", "").isalnum()


@pytest.mark.parametrize(
    "name", ["ab", "1ab", "-ab", "ab-", "w-ab", "a" * 42, "Ann", "an_n", "ab--cd", "api", "sandbox"]
)
def test_an_alias_has_the_form_of_one(name: str) -> None:
    assert not is_alias(name)


def test_ids_are_no_aliases() -> None:
    assert not is_alias(workspace_id("u-1", "k"))
    assert not is_alias(workspace_id("u-1", "k", "a0"))
