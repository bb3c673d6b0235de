"""The language host's parts by themselves: which Python, which plugins, which command, and what an exit code means."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.rehearsal.tools import plugins
from agentenv.rehearsal.tools.python_host import inventory, required_plugins, run_plugin, run_program
from agentenv.rehearsal.tools.python_host.interpreter import BadOption, Interpreter, choose, choose_for_pack
from agentenv.rehearsal.tools.python_host.policy_proxy import PolicyProxy
from agentenv.rehearsal.tools.python_host.protocol import analyzer_pb2, language_pb2

OURS = Interpreter(Path(sys.executable))


def virtualenv(folder: Path) -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    return python


def test_virtual_environment_is_searched_from_the_project_root(tmp_path: Path) -> None:
    python = virtualenv(tmp_path / ".venv")
    found = choose({"virtualenv": ".venv", "toolchain": "pip"}, tmp_path, tmp_path / "stacks")
    assert found.path == python
    around = found.environment({"PATH": "/usr/bin", "PYTHONHOME": "/python"})
    assert around == {"PATH": f"{tmp_path}/.venv/bin:/usr/bin", "VIRTUAL_ENV": f"{tmp_path}/.venv"}
    assert choose({"virtualenv": str(tmp_path / ".venv")}, Path("/elsewhere"), Path("/elsewhere")).path == python


def test_uv_has_it_above_the_program(tmp_path: Path) -> None:
    python = virtualenv(tmp_path / ".venv")
    assert choose({"toolchain": "uv"}, tmp_path, tmp_path / "a" / "b").path == python


def test_default_virtual_environment_is_used_without_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_PYTHON_CMD", raising=False)
    assert choose({}, tmp_path, tmp_path).ours


def test_a_pack_without_a_toolchain_runs_by_uv_where_there_is_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the official language host: it finds the lock in any folder above, and needs `uv` on PATH then."""
    pack, tools = tmp_path / "policies" / "pack", tmp_path / "tools"
    pack.mkdir(parents=True)
    tools.mkdir()
    python = virtualenv(tmp_path / ".venv")
    monkeypatch.setenv("PATH", str(tools))
    named = {"virtualenv": "../../.venv"}
    assert choose_for_pack(named, pack, pack).toolchain == "pip"
    (tmp_path / "uv.lock").touch()
    with pytest.raises(BadOption, match=r"uv\.lock .*`uv` is not on PATH.*toolchain: pip"):
        choose_for_pack(named, pack, pack)
    assert choose_for_pack({**named, "toolchain": "pip"}, pack, pack).path.resolve() == python
    # A program without a toolchain is run by pip's rules.
    assert choose(named, pack, pack).toolchain == "pip"
    (tools / "uv").touch(mode=0o755)
    chosen = choose_for_pack({}, pack, pack)
    assert (chosen.toolchain, chosen.path) == ("uv", python)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"virtualenv": "venv"}, "venv does not exist.*python3 -m venv"),
        ({"virtualenv": 3.0}, "'virtualenv' must be a text"),
        ({"toolchain": "conda"}, "'conda'; it can be pip, uv, poetry"),
        ({"typechecker": "ty"}, "'ty'; it can be mypy, pyright"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=words):
        choose(options, tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("package", "plugin"),
    [
        ("1.2.3", "1.2.3"),
        ("1.0", "1.0.0"),
        ("1.2.3a4", "1.2.3-alpha.4"),
        ("1.2.3rc4", "1.2.3-rc.4"),
        ("1.2.3.post4", "1.2.3+post4"),
        ("1.2.3.post4.dev5", "1.2.3+post4dev5"),
        ("1!2.0", None),
        ("trunk", None),
    ],
)
def test_the_plugin_version_follows_from_the_packages(package: str, plugin: str | None) -> None:
    assert required_plugins.plugin_version(package) == plugin


@given(st.text())
def test_any_package_version_has_a_plugin_version_or_none(text: str) -> None:
    assert required_plugins.plugin_version(text) is None or text[0].isdigit()


def test_package_names_its_plugin() -> None:
    required = required_plugins.dependency(
        "pulumi-random",
        "4.1.0a2",
        {"resource": True, "name": "random", "parameterization": {"name": "r", "version": "1.0.0", "value": "aGk="}},
    )
    assert required is not None
    assert (required.name, required.version, required.kind) == ("random", "v4.1.0-alpha.2", "resource")
    assert (required.parameterization.name, required.parameterization.value) == ("r", b"hi")


@pytest.mark.parametrize(
    ("package", "plugin"),
    [("requests", None), ("pulumi-policy", None), ("pulumi-boxes", {"resource": False, "name": "boxes"})],
)
def test_packages_without_a_plugin_need_none(package: str, plugin: dict[str, object] | None) -> None:
    assert required_plugins.dependency(package, "1.0.0", plugin) is None


def test_engine_gets_only_installed_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))
    requested = plugins.requested("aws")
    assert asyncio.run(required_plugins.list_dependencies(OURS)) == []
    other = tmp_path / "plugins" / "resource-aws-v0.0.1" / "pulumi-resource-aws"
    other.parent.mkdir(parents=True)
    other.touch()
    assert asyncio.run(required_plugins.list_dependencies(OURS)) == []
    program = tmp_path / "plugins" / f"resource-aws-v{requested}" / "pulumi-resource-aws"
    program.parent.mkdir()
    program.touch()
    assert [(row.name, row.version) for row in asyncio.run(required_plugins.list_dependencies(OURS))] == [
        ("aws", f"v{requested}")
    ]


def test_packages_of_another_python_are_listed() -> None:
    # The same environment under its other name, so that both ways must find the same.
    ours = Path(sys.executable)
    other = Interpreter(ours.with_name("python" if ours.name != "python" else "python3"))
    assert not other.ours
    assert asyncio.run(required_plugins.list_packages(other)) == inventory.packages()


def test_packages_are_listed_with_their_plugins() -> None:
    found = {str(row["name"]): row["plugin"] for row in inventory.packages()}
    assert isinstance(found["pulumi-aws"], dict)
    assert found["pulumi-aws"]["name"] == "aws"
    assert found["grpcio"] is None


@pytest.mark.parametrize(
    ("code", "error", "bail"),
    [
        (0, "", False),
        (32, "", True),
        (1, "program exited with non-zero exit code: 1", False),
        (-15, "program exited with non-zero exit code: -1", False),
    ],
)
def test_exit_codes_are_interpreted(code: int, error: str, bail: bool) -> None:
    assert run_program.verdict(code) == language_pb2.RunResponse(error=error, bail=bail)


def test_configuration_is_passed_by_environment_not_by_arguments() -> None:
    request = language_pb2.RunRequest(
        project="shop",
        stack="dev",
        organization="org",
        pwd="/program",
        parallel=4,
        dryRun=True,
        monitor_address="127.0.0.1:1",
        config={"shop:word": "sesame"},
        configSecretKeys=["shop:word"],
        info=language_pb2.ProgramInfo(root_directory="/root", program_directory="/program", entry_point="."),
        args=["more"],
    )
    command = run_program.command(request, OURS, Path("/executor"), "127.0.0.1:2", "")
    assert command == [
        *(sys.executable, "/executor", "--monitor", "127.0.0.1:1", "--engine", "127.0.0.1:2", "--project", "shop"),
        *("--root_directory", "/root", "--stack", "dev", "--pwd", "/program", "--dry_run", "true", "--parallel", "4"),
        *("--organization", "org", ".", "more"),
    ]
    around = run_program.environment(request, OURS)
    assert json.loads(around["PULUMI_CONFIG"]) == {"shop:word": "sesame"}
    assert json.loads(around["PULUMI_CONFIG_SECRET_KEYS"]) == ["shop:word"]


def test_plugin_is_started_by_its_kind(tmp_path: Path) -> None:
    info = language_pb2.ProgramInfo(root_directory=str(tmp_path), program_directory=str(tmp_path))
    pack = language_pb2.RunPluginRequest(kind="analyzer", args=["127.0.0.1:1"], info=info)
    python = sys.executable
    assert run_plugin.command(pack, OURS) == [python, "-u", "-m", "pulumi.policy", "127.0.0.1:1", str(tmp_path)]
    provider = language_pb2.RunPluginRequest(kind="resource", args=["127.0.0.1:1"], info=info)
    with pytest.raises(BadOption, match="neither"):
        run_plugin.command(provider, OURS)
    (tmp_path / "pyproject.toml").write_text('[build-system]\nrequires = []\n[project]\nname = "boxes"\n')
    assert run_plugin.command(provider, OURS) == [python, "-m", "pulumi.run.plugin", "boxes", "127.0.0.1:1"]
    (tmp_path / "__main__.py").touch()
    assert run_plugin.command(provider, OURS) == [python, str(tmp_path), "127.0.0.1:1"]


class Pack(grpc.GenericRpcHandler):
    """A pack that answers with what it was asked, and refuses one call."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = str(getattr(handler_call_details, "method", ""))

        async def answer(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            if method.endswith("ConfigureStack"):
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "an older SDK")
            if method.endswith("Remediate"):
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not that")
            return method.encode() + request

        return grpc.unary_unary_rpc_method_handler(answer)


def test_proxy_reads_the_stack_and_forwards_all_calls() -> None:
    async def play() -> None:
        pack = grpc.aio.server()
        pack.add_generic_rpc_handlers((Pack(),))
        port = pack.add_insecure_port("127.0.0.1:0")
        await pack.start()
        proxy = PolicyProxy()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{await proxy.start()}") as engine:
            stack = analyzer_pb2.AnalyzerStackConfigureRequest(project="shop", stack="dev", config={"shop:a": "b"})
            await engine.unary_unary("/pulumirpc.Analyzer/Handshake")(b"")
            await engine.unary_unary("/pulumirpc.Analyzer/ConfigureStack")(stack.SerializeToString())
            expected = {"PULUMI_PROJECT": "shop", "PULUMI_STACK": "dev", "PULUMI_DRY_RUN": "false"}
            assert await proxy.environment() == {**expected, "PULUMI_CONFIG": '{"shop:a": "b"}'}
            early = asyncio.ensure_future(engine.unary_unary("/pulumirpc.Analyzer/GetPluginInfo")(b"early"))
            await proxy.attach(port)
            assert await early == b"/pulumirpc.Analyzer/GetPluginInfoearly"
            with pytest.raises(grpc.aio.AioRpcError, match="not that"):
                await engine.unary_unary("/pulumirpc.Analyzer/Remediate")(b"")
        await proxy.stop()
        await pack.stop(None)

    asyncio.run(play())


def test_a_pack_that_does_not_start_ends_every_call_with_the_reason() -> None:
    async def play() -> None:
        proxy = PolicyProxy()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{await proxy.start()}") as engine:
            call = asyncio.ensure_future(engine.unary_unary("/pulumirpc.Analyzer/Analyze")(b""))
            assert await proxy.environment() == {}
            proxy.fail("it ended at once")
            with pytest.raises(grpc.aio.AioRpcError, match="did not start: it ended at once"):
                await call
        await proxy.stop()

    asyncio.run(play())
