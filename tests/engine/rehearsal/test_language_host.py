"""The stand-in language host under the real engine: programs, policy packs, components, errors and signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentenv.rehearsal.controlplane.client import until
from tests.fast.rehearsal.tools.test_build import alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.isolated_engine import Engine

SECRET = "open-sesame-4711"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")


@pytest.fixture
def program(engine: Engine) -> Callable[[str], Engine]:
    """Write a program and create its stack."""

    def make(text: str) -> Engine:
        write(engine.folder / "Pulumi.yaml", "name: trial\nruntime: python\n")
        write(engine.folder / "__main__.py", text)
        result = engine.run("stack", "init", "dev")
        assert result.returncode == 0, result.stdout
        return engine

    return make


def test_program_gets_its_project_stack_and_configuration(program: Callable[[str], Engine]) -> None:
    engine = program(
        """
        import os, sys
        import pulumi

        config = pulumi.Config()
        print("to stdout")
        print("to stderr", file=sys.stderr)
        pulumi.export("word", config.require("word"))
        pulumi.export("hidden", pulumi.Output.concat("<", config.require("hidden"), ">"))
        pulumi.export("about", [pulumi.get_project(), pulumi.get_stack(), pulumi.get_organization(), os.getcwd()])
        pulumi.export("dry", pulumi.runtime.is_dry_run())
        pulumi.export("root", pulumi.runtime.get_root_directory())
        """
    )
    assert engine.run("config", "set", "word", "hello").returncode == 0
    assert engine.run("config", "set", "--secret", "hidden", SECRET).returncode == 0
    up = engine.run("up", "--yes", "--skip-preview")
    assert up.returncode == 0, up.stdout
    assert "to stdout" in up.stdout
    assert "to stderr" in up.stdout
    assert SECRET not in up.stdout
    outputs = json.loads(engine.run("stack", "output", "--json", "--show-secrets").stdout)
    folder = str(engine.folder)
    assert outputs == {
        "word": "hello",
        "hidden": f"<{SECRET}>",
        "about": ["trial", "dev", "organization", folder],
        "dry": False,
        "root": folder,
    }


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("raise ValueError('a mistake')", "error: Program failed with an unhandled exception:"),
        ("raise pulumi.RunError('a message')", "error: a message"),
        ("sys.exit(3)", "program exited with non-zero exit code: 3"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("x = = 1", "SyntaxError: invalid syntax"),
        ("os.kill(os.getpid(), 9)", "program exited with non-zero exit code: -1"),
    ],
)
def test_failing_program_is_reported(shared: Engine, statement: str, shown: str) -> None:
    write(shared.folder / "__main__.py", f"import os, sys\nimport pulumi\n{statement}\n")
    preview = shared.run("preview")
    assert preview.returncode != 0
    assert shown in preview.stdout
    if "unhandled exception" in shown:
        # The program printed it, so the host must not repeat it.
        assert "exit code" not in preview.stdout
        assert "pulumi-language-python-exec" not in preview.stdout


SLEEPER = """
    import os, subprocess, time
    child = subprocess.Popen(["/bin/sleep", "600"])
    with open("pid.new", "w") as file:
        file.write(f"{os.getpid()} {os.getppid()} {child.pid}")
    os.rename("pid.new", "pid")
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_engine(program: Callable[[str], Engine], number: int) -> None:
    engine = program(SLEEPER)
    with (engine.folder / "said").open("w") as log:
        running = subprocess.Popen(
            engine.command("preview"),
            cwd=engine.folder,
            env=engine.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            assert until((engine.folder / "pid").exists, 180)
        finally:
            running.send_signal(number)
        running.wait(timeout=30)
    pids = [int(pid) for pid in (engine.folder / "pid").read_text().split()]
    assert len(pids) == 3, "the program, the language host and what the program started"
    assert until(lambda: not any(alive(pid) for pid in pids), 180)
    text = (engine.folder / "said").read_text()
    assert "Traceback" not in text
    assert "KeyboardInterrupt" not in text
    if number == signal.SIGINT:
        assert "preview canceled" in text


# A pack without the SDK of packs: it reports its folder, and the facts of the stack.
PACK = """
    import concurrent.futures, os
    import grpc
    import pulumi
    from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc, plugin_pb2

    # Settings belong to the thread that the pack starts in.
    word = pulumi.Config("trial").get("word")
    TOLD = f"{pulumi.get_project()}/{pulumi.get_stack()} {word} in {os.path.basename(os.getcwd())}"

    class Pack(analyzer_pb2_grpc.AnalyzerServicer):
        def GetAnalyzerInfo(self, request, context):
            policy = analyzer_pb2.PolicyInfo(name="tells", description="tells", enforcementLevel=analyzer_pb2.ADVISORY)
            return analyzer_pb2.AnalyzerInfo(name="teller", displayName="teller", version="0.0.1", policies=[policy])

        def GetPluginInfo(self, request, context):
            return plugin_pb2.PluginInfo(version="0.0.1")

        def Configure(self, request, context):
            from google.protobuf import empty_pb2
            return empty_pb2.Empty()

        def Analyze(self, request, context):
            return analyzer_pb2.AnalyzeResponse(diagnostics=[analyzer_pb2.AnalyzeDiagnostic(
                policyName="tells", policyPackName="teller", policyPackVersion="0.0.1",
                message=TOLD, enforcementLevel=analyzer_pb2.ADVISORY)])

        def AnalyzeStack(self, request, context):
            return analyzer_pb2.AnalyzeResponse()

        def Remediate(self, request, context):
            return analyzer_pb2.RemediateResponse()

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    analyzer_pb2_grpc.add_AnalyzerServicer_to_server(Pack(), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()
"""


def test_policy_pack_runs_with_the_facts_of_the_stack(program: Callable[[str], Engine], tmp_path: Path) -> None:
    engine = program("import pulumi\npulumi.ComponentResource('trial:index:Thing', 'one')\n")
    assert engine.run("config", "set", "word", "hello").returncode == 0
    # As in a checkout: a lock file in a parent folder means uv, unless the pack names another toolchain.
    write(tmp_path / "uv.lock", "")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    write(tmp_path / "pack" / "PulumiPolicy.yaml", "runtime: python\n")
    write(tmp_path / "pack" / "__main__.py", PACK)
    preview = engine.run("preview", "--policy-pack", str(tmp_path / "pack"))
    assert preview.returncode != 0
    assert "means uv, and `uv` is not on PATH" in preview.stdout

    runtime = "runtime: {name: python, options: {toolchain: pip, virtualenv: ../.venv}}\n"
    write(tmp_path / "pack" / "PulumiPolicy.yaml", runtime)
    preview = engine.run("preview", "--policy-pack", str(tmp_path / "pack"))
    assert preview.returncode == 0, preview.stdout
    assert "trial/dev hello in pack" in preview.stdout

    write(tmp_path / "pack" / "__main__.py", "raise ValueError('a pack with a mistake')\n")
    preview = engine.run("preview", "--policy-pack", str(tmp_path / "pack"))
    assert preview.returncode != 0
    assert "ValueError: a pack with a mistake" in preview.stdout
    assert "the policy pack did not start" in preview.stdout


def test_components_have_a_schema(engine: Engine) -> None:
    write(engine.folder / "PulumiPlugin.yaml", "runtime: python\n")
    write(
        engine.folder / "__main__.py",
        """
        from typing import Optional, TypedDict
        import pulumi
        from pulumi.provider.experimental import component_provider_host

        class BoxArgs(TypedDict):
            size: pulumi.Input[int]

        class Box(pulumi.ComponentResource):
            volume: pulumi.Output[int]
            def __init__(self, name: str, args: BoxArgs, opts: Optional[pulumi.ResourceOptions] = None):
                super().__init__("boxes:index:Box", name, {}, opts)

        if __name__ == "__main__":
            component_provider_host(name="boxes", components=[Box])
        """,
    )
    answer = subprocess.run(
        [str(engine.pulumi), "package", "get-schema", "."],
        cwd=engine.folder,
        env=engine.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    box = json.loads(answer.stdout)["resources"]["boxes:index:Box"]
    assert list(box["inputProperties"]) == ["size"]
    assert list(box["properties"]) == ["volume"]


def test_missing_virtual_environment_is_explained(shared: Engine) -> None:
    write(shared.folder / "__main__.py", "")
    write(shared.folder / "Pulumi.yaml", "name: trial\nruntime: {name: python, options: {virtualenv: not-here}}\n")
    preview = shared.run("preview")
    write(shared.folder / "Pulumi.yaml", "name: trial\nruntime: python\n")
    assert preview.returncode != 0
    assert "not-here does not exist. Create it" in preview.stdout
    assert "Traceback" not in preview.stdout
