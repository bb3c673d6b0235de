"""A preview of the local stack, beside the engine's own price for the same resources.

The baseline is a program that does nothing but register the same resource types with the same inputs in a loop, through
the same SDK and plugins, on the same stage: no components, no settings, no look-ups. What is left between the two is
ours. `untyped_s` is the same loop without the SDK's classes, which nobody writes, but which shows what their import is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.timing import best
from rehearsal.engine import Engine
from rehearsal.stage import Stage, stage
from rehearsal.tools.progress import telling

UNTYPED = '''"""Registers recorded resources and nothing else."""

import importlib
import json
from pathlib import Path

import pulumi

rows = json.loads((Path(__file__).parent / "resources.json").read_text())
'''
LOOP = """
for row in rows:
    pulumi.CustomResource(row["type"], row["name"], row["inputs"], pulumi.ResourceOptions(version=row["version"]))
"""
TYPED = """
for row in rows:
    package, module, kind = row["type"].split(":")
    getattr(importlib.import_module(f"pulumi_{package}.{module.split('/')[0]}"), kind)
"""


def measure(repeat: int) -> dict[str, Any]:
    """The previews by turns; the program's is at most one and a half times the engine's."""
    root = Path(__file__).resolve().parent.parent
    with stage(telling()) as opened:
        recorded = record(opened, root)
        program = opened.project(root, "local")
        typed = loop(opened, "typed", UNTYPED + TYPED + LOOP, recorded)
        untyped = loop(opened, "untyped", UNTYPED + LOOP, recorded)
        for one in (program, typed, untyped):
            one.preview()  # once unmeasured: byte code and the disk's cache are warm for all alike
        program_s, engine_s, untyped_s = best(repeat, program.preview, typed.preview, untyped.preview)
    return {
        "resources": len(recorded),
        "program_s": round(program_s, 2),
        "engine_s": round(engine_s, 2),
        "ratio": round(program_s / engine_s, 2),
        "untyped_s": round(untyped_s, 2),
        # Claims come with the sandbox classes: until then no user reaches the program, so there is nothing to compare
        "users_10_s": None,
        "users_10000_s": None,
        "users_ratio": None,
    }


def record(opened: Stage, root: Path) -> list[dict[str, Any]]:
    """Every resource of the local stack with the inputs that it was brought up with."""
    from importlib.metadata import version

    engine = opened.project(root, "local")
    engine.up()
    rows = [
        {
            "type": resource["type"],
            "name": f"{resource['urn'].rsplit('::', 1)[-1]}-{number}",
            "inputs": {key: value for key, value in resource.get("inputs", {}).items() if key != "__defaults"},
            "version": version("pulumi-aws"),
        }
        for number, resource in enumerate(engine.state())
        if resource.get("custom") and not resource["type"].startswith("pulumi:")
    ]
    engine.destroy()
    return rows


def loop(opened: Stage, name: str, text: str, recorded: list[dict[str, Any]]) -> Engine:
    """A program that registers the recorded resources in a loop."""
    folder = opened.run.folder / name
    folder.mkdir()
    (folder / "resources.json").write_text(json.dumps(recorded), encoding="utf-8")
    (folder / "__main__.py").write_text(text, encoding="utf-8")
    return opened.program(folder, "local", {"aws:region": "us-east-1"})
