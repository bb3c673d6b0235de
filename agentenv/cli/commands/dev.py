"""Serve workspaces on this machine: the service's own API, without Kubernetes, Pulumi or a cloud account.

Sandboxes run under gVisor where this machine has it, else in namespaces, else as plain processes. Their homes and the
records are in one folder and stay over a restart. Ctrl-C ends every sandbox.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.cli.arguments import port_number
from agentenv.cli.main import OK, CommandError

if TYPE_CHECKING:
    from agentenv.config import Settings

PORT = 8420


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--file", type=Path, metavar="F", help="a stack file with the classes (default: `standard` and `base`)"
    )
    parser.add_argument(
        "--port", type=port_number, default=PORT, metavar="N", help="the port on 127.0.0.1; 0 takes any"
    )
    parser.add_argument("--state", type=Path, metavar="DIR", help="the folder of records, homes and the API key")
    parser.add_argument("--gvisor", action="store_true", help="build gVisor if this machine does not have it")
    parser.add_argument("--forget", action="store_true", help="delete the folder with every workspace, and end")
    parser.add_argument("--json", action="store_true", help="print one JSON object once it serves")


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from agentenv.dev import gateway, state
    from agentenv.dev.machine import machine
    from agentenv.dev.serve import serve
    from agentenv.local.sandboxes.bundle import CannotStart
    from agentenv.rehearsal.tools.errors import ToolError
    from agentenv.rehearsal.tools.progress import terminal_progress

    # Parts of the service log at every start
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    folder: Path = args.state or state.folder()
    began = time.monotonic()
    try:
        if args.forget:
            state.delete(folder)
            return OK
        settings = _settings(args.file)
        with state.opened(folder) as current, machine(terminal_progress(), gvisor=args.gvisor) as on:

            def ready(address: str) -> None:
                seconds = round(time.monotonic() - began, 1)
                console = gateway.console(int(address.rpartition(":")[2]))
                facts = {
                    "service": address,
                    "console": console,
                    "key_file": str(current.key_file),
                    "runtime": on.runtime.name,
                }
                if args.json:
                    sys.stdout.write(json.dumps({**facts, "seconds": seconds}) + "\n")
                else:
                    sys.stdout.write(
                        _welcome((address, console), current.key(), on.runtime.name, on.passed_over, settings)
                    )
                sys.stdout.flush()

            asyncio.run(serve(settings, current, on, args.port, ready))
    except state.InUseError as error:
        raise CommandError(f"`agentenv dev` already runs at {error}; end it first, or give another --state") from None
    except (CannotStart, ToolError) as error:
        raise CommandError(str(error)) from error
    return OK


def _settings(file: Path | None) -> Settings:
    from agentenv.cli.stack_files import selected_settings
    from agentenv.dev.settings import default_settings

    settings = default_settings() if file is None else selected_settings(None, file)
    if not settings.sandbox_classes:
        raise CommandError(f"{file} has no sandboxClasses")
    return settings


def _welcome(
    addresses: tuple[str, str], key: str, runtime: str, passed_over: tuple[str, ...], settings: Settings
) -> str:
    address, console = addresses
    classes = ", ".join(each.name for each in settings.sandbox_classes)
    weaker = f" (not {'; not '.join(passed_over)})" if passed_over else ""
    return (
        f"serving {address}; classes: {classes}; sandboxes run in {runtime}{weaker}\n\n"
        f"  export AGENTENV_SERVICE={address} AGENTENV_TOKEN={key}\n"
        f"  agentenv workspace create --class {settings.sandbox_classes[0].name}\n\n"
        f"The console is {console} (sign in with that key)\n"
        "Ctrl-C ends it, and suspends every workspace\n"
    )
