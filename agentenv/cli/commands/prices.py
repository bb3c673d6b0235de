"""Refresh the prices of regions from the AWS Price List and the Spot price history.

The file of a region is replaced atomically, and only if it can be read back. Commit it: an estimate shows how old its
prices are.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import OK, CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentenv.cli.prices.refresh import Refreshed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", choices=["refresh"], help="refresh all prices of a region")
    parser.add_argument(
        "--region", action="append", metavar="R", help="a region; can be repeated (default: those with prices)"
    )
    parser.add_argument("--profile", metavar="P", help="the AWS profile")
    parser.add_argument("--no-spot", action="store_true", help="leave Spot prices as they are")
    parser.add_argument("--accept-jumps", action="store_true", help="also take prices that changed threefold or more")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write to this folder, not where estimates read prices")
    parser.add_argument("--json", action="store_true", help="print the changes as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Refresh each region: request its prices, write its file, print the changes."""
    from agentenv.cli.prices.price_list import LISTED_IN
    from agentenv.cli.prices.refresh import Sources, refresh
    from agentenv.core import prices
    from agentenv.core.prices.book import price_book, regions

    folder = arguments.out or Path(prices.__file__).parent
    results: list[dict[str, Any]] = []
    for region in [check_region(text) for text in arguments.region] if arguments.region else regions():
        sources = Sources(_client(arguments, "pricing", LISTED_IN), _client(arguments, "ec2", region))
        old = price_book(region) if region in regions() else None
        refreshed = call_aws(lambda s=sources, r=region, o=old: refresh(
            r, o, s, datetime.now(UTC), jumps=arguments.accept_jumps, live=not arguments.no_spot
        ))  # fmt: skip
        file = folder / f"{region}.toml"
        write(file, refreshed)
        sys.stdout.write(as_text(file, refreshed))
        results.append(as_json(file, refreshed))
    if arguments.json:
        sys.stdout.write(json.dumps({"written": results}) + "\n")
    return OK


def check_region(text: str) -> str:
    """Return the name of a region if it is well-formed: it becomes the name of a file."""
    from agentenv.config.mistakes import nearest
    from agentenv.config.regions import KNOWN, REGION

    if not re.fullmatch(REGION, text):
        hint = nearest(text, KNOWN) or "write one such as us-east-1"
        raise CommandError(f"{text!r} is not an AWS region; {hint}")
    return text


def _client(arguments: argparse.Namespace, service: str, region: str) -> Any:
    import boto3
    from botocore.exceptions import ProfileNotFound

    try:
        session: Any = boto3.Session(profile_name=arguments.profile)
    except ProfileNotFound as missing:
        raise CommandError(str(missing)) from missing
    return session.client(service, region_name=region)


def call_aws(request: Callable[[], Refreshed]) -> Refreshed:
    """Return the result of a request. An error of AWS becomes a `CommandError`."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return request()
    except (BotoCoreError, ClientError) as error:
        raise CommandError(f"AWS returned no prices, and nothing was written: {error}") from error


def write(file: Path, refreshed: Refreshed) -> None:
    """Write the price book to its file, if reading it back returns the same book."""
    from agentenv.cli.reports.plots import write_file
    from agentenv.core.prices.book import read_book
    from agentenv.core.prices.write import price_book_text

    text = price_book_text(refreshed.book)
    if read_book(text) != refreshed.book:
        raise CommandError(f"{file.name} cannot be read back as it is, and was not written")
    write_file(file, text.encode())


def as_text(file: Path, refreshed: Refreshed) -> str:
    """Return the changes of a region's prices as text."""
    changed, retained = len(refreshed.changes), len(refreshed.retained)
    lines = [f"{file.name}: {changed} changed, {retained} keep their old price and date"]
    for change in refreshed.changes:
        old = "new" if change.old is None else f"{change.old.normalize():f}"
        lines.append(f"  {change.name:<26} {old:>12} → {change.new.normalize():f}")
    lines += [f"  {name:<26} unchanged: {reason}" for name, reason in refreshed.retained.items()]
    return "\n".join(lines) + "\n"


def as_json(file: Path, refreshed: Refreshed) -> dict[str, Any]:
    """Return the changes of a region's prices as the command's JSON has them."""
    return {
        "region": refreshed.book.region,
        "file": str(file),
        "changed": [
            {"name": change.name, "old": None if change.old is None else float(change.old), "new": float(change.new)}
            for change in refreshed.changes
        ],
        "kept": refreshed.retained,
    }
