"""Arguments that several commands have, and their types."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_stack_options(parser: argparse.ArgumentParser, stack: str = "a stack of the nearest Pulumi.yaml") -> None:
    """Declare the options for the stack that a command reads, by its name or its file."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--stack", "-s", metavar="S", help=stack)
    which.add_argument("--file", "-f", metavar="F", type=Path, help="another stack file, Pulumi.<stack>.yaml")


def port_number(text: str) -> int:
    """Parse a port; 0 is any free one where the command listens."""
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port: a number from 0 to 65535")
    return int(text)
