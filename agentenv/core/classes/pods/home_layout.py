"""The layout of a home on its access point: `current/` is mounted, `next/` and `state/` lie beside it.

A snapshot is put in place by a rename of `next/`, which a mounted folder itself does not allow. An init container makes
the layout before the sandbox starts, and moves a home of an older release into it. It runs for every class with homes,
whatever its daemon is, and has the image of the gate: a shell and no more.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from agentenv.core.classes.names import HOME
from agentenv.core.classes.pods.init_container import init_container

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]

CURRENT = "current"
FOLDER = "/home-folder"
SCRIPT = "home_layout.sh"


def layout_container(plan: ClassPlan) -> Plain:
    """Return the init container that brings the home of a sandbox into the layout."""
    return init_container(
        HOME,
        plan.gate_image,
        ["/bin/sh", "-c", script(), HOME],
        plan.settings,
        args=[FOLDER],
        mounts=[{"name": HOME, "mountPath": FOLDER}],
    )


def home_mount(path: str) -> Plain:
    """Return the mount of the files of a home."""
    return {"name": HOME, "mountPath": path, "subPath": CURRENT}


def script() -> str:
    """Return the script of the init container, for any POSIX shell."""
    return files("agentenv.core.classes.pods").joinpath(SCRIPT).read_text(encoding="utf-8")
