"""The extras of the package: which one installs a module that a plain `pip install agent-environment` does not.

A command that lacks such a module ends with one line that names the extra, not with a traceback.
"""

from __future__ import annotations

from typing import Final

EXTRAS: Final = {
    "keyring": ("keyring",),
    "rehearsal": ("cryptography", "grpc", "moto", "psutil", "regex", "urllib3", "werkzeug"),
    "reports": ("jinja2", "matplotlib", "pyarrow"),
    "service": (
        "aiohttp",
        "fastapi",
        "httptools",
        "jwt",
        "lightkube",
        "mcp",
        "opentelemetry",
        "prometheus_client",
        "starlette",
        "uvicorn",
    ),
}


def extra_of(module: str) -> str | None:
    """Return the extra that installs a module, None for a module of no extra."""
    package = module.partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if package in modules), None)


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'agent-environment[{extra}]'"
