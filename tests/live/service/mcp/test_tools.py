"""The tools of agents through the official MCP client, over workspaces that run."""

from __future__ import annotations

from typing import Any

import httpx2

from agentenv.dev.gateway import DOMAIN
from agentenv.dev.machine import Machine
from agentenv.dev.state import State
from agentenv.service.mcp.app import TOOLS
from tests.live.service.mcp.conftest import Served, Tools, with_service


async def output_of(tools: Tools, id_: str, pid: int, text: str) -> dict[str, Any]:
    """Return the recent output of a command once it is a text; the caller bounds the time."""
    while True:
        result = await tools("read_output", workspace=id_, pid=pid, wait=0.2)
        if result["stdout"] == text:
            return result


def test_agent_runs_commands_and_edits_files(state: State, on: Machine) -> None:
    async def act(service: Served) -> None:
        async with service.tools() as tools:
            listed = await tools.client.list_tools()
            assert {each.name for each in listed.tools} == {each.__name__ for each in TOOLS}
            assert all(each.description for each in listed.tools)
            opened = await tools("open_workspace", key="chat-1")
            id_ = opened["id"]
            assert (opened["state"], opened["mode"]) == ("running", "session")
            assert (await tools("open_workspace", key="chat-1"))["id"] == id_
            assert id_ in {each["id"] for each in (await tools("list_workspaces"))["workspaces"]}

            ran = await tools("run", workspace=id_, command="echo out; echo err >&2; exit 3")
            assert (ran["stdout"], ran["stderr"], ran["exit_code"], ran["running"]) == ("out\n", "err\n", 3, False)
            much = await tools("run", workspace=id_, command="seq 1 100000")
            assert len(much["stdout"]) < 40_000
            assert "bytes of 588895 were cut here" in much["stdout"]
            assert much["stdout"].endswith("99999\n100000\n")

            await tools("write_file", workspace=id_, path="src/a.py", text="one\ntwo\nthree\n")
            read = await tools("read_file", workspace=id_, path="src/a.py", first_line=2, lines=1)
            assert (read["text"], read["total_lines"]) == ("two", 3)
            assert "read on with `first_line`" in read["note"]
            edited = await tools("edit_file", workspace=id_, path="src/a.py", old="two", new="2")
            assert edited["replaced"] == 1
            assert "does not occur" in await tools.refused("edit_file", workspace=id_, path="src/a.py", old="x", new="")
            assert "occurs 2 times" in await tools.refused(
                "edit_file", workspace=id_, path="src/a.py", old="e\n", new=""
            )
            found = await tools("search_files", workspace=id_, pattern="t.ree|^2", names="*.py")
            assert found["lines"] == ["./src/a.py:2:2", "./src/a.py:3:three"]
            assert (await tools("search_files", workspace=id_, pattern="nothing"))["lines"] == []
            assert "search failed" in await tools.refused("search_files", workspace=id_, pattern="(")
            entries = await tools("list_files", workspace=id_, path="src")
            assert [(each["path"].rsplit("/", 1)[1], each["size"]) for each in entries["entries"]] == [("a.py", 12)]
            await tools("run", workspace=id_, command="head -c 100 /dev/zero > zeros")
            assert "no text file" in await tools.refused("read_file", workspace=id_, path="zeros")
            assert "not_found" in await tools.refused("read_file", workspace=id_, path="nothing")

    with_service(state, on, act)


def test_background_commands_continue(state: State, on: Machine) -> None:
    async def act(service: Served) -> None:
        async with service.tools() as tools:
            id_ = (await tools("open_workspace"))["id"]
            line = "echo first; read answer; echo got $answer; sleep 600"
            slow = await tools("run", workspace=id_, command="echo begun; sleep 600", timeout=0.5)
            assert (slow["running"], slow["exit_code"]) == (True, None)
            assert await output_of(tools, id_, slow["pid"], "begun\n")
            stopped = await tools("stop", workspace=id_, pid=slow["pid"], kill=True)
            assert (stopped["running"], stopped["exit_code"]) == (False, -1)
            begun = await tools("run", workspace=id_, command="mkfifo in; sh -c '" + line + "' < in", background=True)
            assert begun["running"]
            await tools("run", workspace=id_, command="echo yes > in")
            assert (await output_of(tools, id_, begun["pid"], "first\ngot yes\n"))["running"]
            await tools("stop", workspace=id_, pid=begun["pid"])
            crowd = "for each in $(seq 30); do (sleep 600; true) & done; wait"
            for _ in range(3):
                many = await tools("run", workspace=id_, command=crowd, background=True)
                assert not (await tools("stop", workspace=id_, pid=many["pid"]))["running"]
            assert (await tools("run", workspace=id_, command="echo on"))["stdout"] == "on\n"
            assert "not_found" in await tools.refused("read_output", workspace=id_, pid=4_000_000)

    with_service(state, on, act)


def test_tool_waits_for_a_server(state: State, on: Machine) -> None:
    async def act(service: Served) -> None:
        async with service.tools() as tools:
            id_ = (await tools("open_workspace"))["id"]
            serve = "sleep 0.3; exec python3 -m http.server 8123 --bind 127.0.0.1"
            link = await tools("start_server", workspace=id_, command=serve, port=8123)
            assert link["url"] == f"http://8123-{id_}.{DOMAIN}:8000/"
            probe = "exec 3<>/dev/tcp/127.0.0.1/8123 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && head -1 <&3"
            assert "200 OK" in (await tools("run", workspace=id_, command=probe))["stdout"]
            failed = await tools.refused("start_server", workspace=id_, command="echo no >&2; exit 4", port=8124)
            assert "ended with 4" in failed
            assert "no" in failed

    with_service(state, on, act)


def test_suspended_workspace_resumes_with_its_files(state: State, on: Machine) -> None:
    async def act(service: Served) -> None:
        async with service.tools() as tools:
            id_ = (await tools("open_workspace"))["id"]
            await tools("write_file", workspace=id_, path="kept", text="yes")
            assert (await tools("suspend_workspace", workspace=id_))["state"] == "suspended"
            assert (await tools("read_file", workspace=id_, path="kept"))["text"] == "yes"
            assert (await tools("budget_left", workspace=id_))["spent"]

    with_service(state, on, act)


def test_sub_agent_has_fewer_rights_than_its_parent(state: State, on: Machine) -> None:
    async def act(service: Served) -> None:
        async with service.tools() as tools:
            parent = (await tools("open_workspace", budget="5", life=3600))["id"]
            left = "dollars of its monthly budget left"
            assert left in await tools.refused("spawn_workspace", parent=parent)
            assert left in await tools.refused("spawn_workspace", parent=parent, budget="6")
            child = await tools("spawn_workspace", parent=parent, key="a", budget="2", life=86_400)
            assert (child["parent"], child["budget"]) == (parent, "2")
            rows = {each["id"]: each for each in (await tools("list_workspaces"))["workspaces"]}
            assert rows[parent]["budget"] == "3"
            assert child["ends"] == rows[parent]["ends"]
            again = await tools("spawn_workspace", parent=parent, key="a", budget="2", life=86_400)
            assert again["id"] == child["id"]
            rows = {each["id"]: each for each in (await tools("list_workspaces"))["workspaces"]}
            assert rows[parent]["budget"] == "3"
            assert "no such workspace" in await tools.refused("spawn_workspace", parent="w-" + "a" * 26)
            assert (await tools("run", workspace=child["id"], command="echo works"))["stdout"] == "works\n"

    with_service(state, on, act)


def test_callers_are_authenticated_as_in_the_api(state: State, on: Machine) -> None:
    async def act(service: Served) -> None:
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
            refused = await http.post(f"{service.url}/mcp", json={})
            assert refused.status_code == 401
            where = refused.headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
            document = (await http.get(where)).json()
            assert document["resource"] == f"{service.url}/mcp"
            assert document["bearer_methods_supported"] == ["header"]
            body, headers = {"name": "reader", "scopes": ["read"]}, {"X-API-Key": service.key}
            reader = (await http.post(f"{service.url}/v1/keys", json=body, headers=headers)).json()["key"]
        async with service.tools() as tools:
            id_ = (await tools("open_workspace"))["id"]
        async with service.tools(reader) as tools:
            assert id_ in {each["id"] for each in (await tools("list_workspaces"))["workspaces"]}
            assert "scope 'use'" in await tools.refused("run", workspace=id_, command="true")
            assert "scope 'create'" in await tools.refused("open_workspace")
            assert "no such workspace" in await tools.refused("budget_left", workspace="w-" + "a" * 26)

    with_service(state, on, act)
