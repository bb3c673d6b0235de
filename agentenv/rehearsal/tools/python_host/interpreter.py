"""Choose the Python of a program, a policy pack or a plugin: from its project file, else the current one."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOOLCHAINS = ("pip", "uv", "poetry")
_TYPECHECKERS = ("mypy", "pyright")


class BadOption(Exception):
    """An invalid runtime option; the message is for the user."""


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter and its virtual environment."""

    path: Path
    virtualenv: Path | None = None
    typechecker: str | None = None
    toolchain: str = "pip"

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return an environment in which the virtual environment's programs come first on PATH."""
        environment = dict(os.environ if base is None else base)
        if self.virtualenv is not None:
            environment.pop("PYTHONHOME", None)
            environment["VIRTUAL_ENV"] = str(self.virtualenv)
            rest = environment.get("PATH")
            environment["PATH"] = str(self.virtualenv / "bin") + (os.pathsep + rest if rest else "")
        return environment

    @property
    def ours(self) -> bool:
        """Return whether it is the current interpreter."""
        return self.path == Path(sys.executable)


def choose(options: Mapping[str, object], root: Path, program: Path) -> Interpreter:
    """Return the interpreter that the project's runtime options name."""
    virtualenv = _text(options, "virtualenv")
    toolchain = _text(options, "toolchain", _TOOLCHAINS) or "pip"
    typechecker = _text(options, "typechecker", _TYPECHECKERS)
    if virtualenv:
        folder = root / virtualenv
        if not _is_virtualenv(folder):
            state = "is not a virtual environment" if folder.exists() else "does not exist"
            raise BadOption(
                f"the runtime option 'virtualenv' is '{virtualenv}', but {folder} {state}. Create it "
                f"(`python3 -m venv {folder}`) and install the program's requirements there, or change the option"
            )
        return Interpreter(folder / "bin" / "python", folder, typechecker, toolchain)
    if toolchain != "pip":
        # Both keep the environment in the program's folder or in one above it.
        for folder in (program, *program.parents):
            if _is_virtualenv(folder / ".venv"):
                return Interpreter(folder / ".venv" / "bin" / "python", folder / ".venv", typechecker, toolchain)
    named = os.environ.get("PULUMI_PYTHON_CMD")
    if named:
        executable = shutil.which(named)
        if executable is None:
            raise BadOption(f"PULUMI_PYTHON_CMD is '{named}', which is not a program on PATH")
        return Interpreter(Path(executable), None, typechecker, toolchain)
    ours = Path(sys.prefix) if sys.prefix != sys.base_prefix else None
    return Interpreter(Path(sys.executable), ours, typechecker, toolchain)


def choose_for_pack(options: Mapping[str, object], root: Path, program: Path) -> Interpreter:
    """Return the interpreter of a policy pack: as of a program, but where no toolchain is named, uv's lock names uv.

    So does the official language host, which then needs `uv` on PATH.
    """
    lock = next((folder / "uv.lock" for folder in (program, *program.parents) if (folder / "uv.lock").is_file()), None)
    if lock is None or options.get("toolchain") is not None:
        return choose(options, root, program)
    if shutil.which("uv") is None:
        raise BadOption(
            f"the policy pack in {program} names no toolchain, so {lock} means uv, and `uv` is not on PATH. "
            "Name one in its PulumiPolicy.yaml (`toolchain: pip`), or install uv"
        )
    return choose({**options, "toolchain": "uv"}, root, program)


def _is_virtualenv(folder: Path) -> bool:
    return (folder / "bin" / "python").is_file()


def _text(options: Mapping[str, object], name: str, allowed: tuple[str, ...] = ()) -> str | None:
    value = options.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadOption(f"the runtime option '{name}' must be a text, and is {value!r}")
    if allowed and value not in allowed:
        raise BadOption(f"the runtime option '{name}' is '{value}'; it can be {', '.join(allowed)}")
    return value
