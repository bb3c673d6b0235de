"""Types of arguments that several commands have."""

from __future__ import annotations

import argparse


def port_number(text: str) -> int:
    """Parse a port; 0 is any free one where the command listens."""
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port: a number from 0 to 65535")
    return int(text)
