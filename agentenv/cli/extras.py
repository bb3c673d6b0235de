"""The extras of the package: which one installs a module that a plain `pip install agent-environment` does not.

A command that lacks such a module ends with one line that names the extra, not with a traceback.
"""

from __future__ import annotations

from typing import Final

# Of each extra the modules that it adds: `dev` installs `service` besides, and `rehearsal` installs both
EXTRAS: Final = {
    "keyring": ("keyring",),
    "reports": ("jinja2", "matplotlib", "pyarrow"),
    "service": (
        "aiohttp",
        "fastapi",
        "grpc",
        "httptools",
        "jwt",
        "lightkube",
        "mcp",
        "opentelemetry",
        "prometheus_client",
        "starlette",
        "uvicorn",
    ),
    "dev": ("cryptography", "psutil"),
    "rehearsal": ("moto", "regex", "urllib3", "werkzeug"),
}
_NESTED: Final = ("service", "dev", "rehearsal")


def extra_of(module: str, command: str = "") -> str | None:
    """Return the extra that installs a module, None for a module of no extra.

    `command` is the extra of the command that lacks the module. It is returned where it installs the module too.
    """
    package = module.partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if package in modules), None)
    smaller = _NESTED[: _NESTED.index(command)] if command in _NESTED else ()
    return command if extra in smaller else extra


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'agent-environment[{extra}]'"
