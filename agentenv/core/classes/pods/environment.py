"""The environment of the programs in a sandbox: package managers install into the home, which outlives the pod.

The image is read-only, and its own settings lead there. What is installed into the home is on `PATH`, because
workspaced adds `~/.local/bin`.
"""

from __future__ import annotations

from agentenv.core.classes.pods.resources import SCRATCH

TEMPORARY = next(iter(SCRATCH))


def variables(home: str) -> dict[str, str]:
    """Return the variables of a sandbox with that home; a class's own replace them."""
    local = f"{home}/.local"
    return {
        "HOME": home,
        "TMPDIR": TEMPORARY,
        # npm installs into the folder of the image's node by default; pipx and uv use ~/.local.
        "NPM_CONFIG_PREFIX": local,
        # Debian and others refuse an installation outside of a virtual environment, to protect the image, which is
        # read-only here. Without rights to it, pip installs for the user.
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
        "CARGO_HOME": f"{home}/.cargo",
        "CARGO_INSTALL_ROOT": local,
        "GOPATH": f"{home}/go",
        "GOBIN": f"{local}/bin",
    }
