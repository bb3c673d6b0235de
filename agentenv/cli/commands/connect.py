"""Connect a tool of this user with the workspace service, and undo it.

claude, cursor and vscode get an MCP entry; ssh gets the OpenSSH configuration; e2b gets a file with its variables. Each
gets an API key of its own where the caller may create one, which --undo revokes. No key is shown.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from agentenv.cli.main import OK
from agentenv.cli.workspaces.verbs import add_options, print_json, run_verb

if TYPE_CHECKING:
    from agentenv.client import Client

TOOLS = ("claude", "cursor", "vscode", "e2b", "ssh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("tool", choices=TOOLS, metavar="TOOL", help=f"one of {', '.join(TOOLS)}")
    parser.add_argument("--undo", action="store_true", help="remove what was written, and revoke its key")
    add_options(parser, _connect)


def run(args: argparse.Namespace) -> int:
    """Write the tool's configuration, or remove it."""
    return run_verb(args)


def _connect(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces import tools

    tool = tools.tool_of(args.tool)
    if args.undo:
        done = "removed" if tool.remove() else "absent"
        tools.revoke_key(client, args.tool)
    else:
        done = "written"
        key = tools.key_of(client, args.tool) if tool.needs_key else ""
        tool.write(tools.Connection(client.address, key, client.get_caller().get("gateway")))
    if args.json:
        print_json({"tool": args.tool, "file": str(tool.file), "done": done})
    else:
        sys.stdout.write(f"{done}: {tool.file}\n{tool.shown if not args.undo else ''}")
    return OK
