"""Look the prices of regions up anew, in AWS's price list and its history of Spot prices.

The file of a region is written whole or not at all, and only after it was read back. It belongs into a commit: an
estimate says how old its prices are.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import OK, Refusal

if TYPE_CHECKING:
    from agentenv.cli.prices.refresh import Refreshed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("what", choices=["refresh"], help="look all prices of a region up")
    parser.add_argument(
        "--region", action="append", metavar="R", help="which region; may be given again (default: those with prices)"
    )
    parser.add_argument("--profile", metavar="P", help="the AWS profile to ask with")
    parser.add_argument("--no-spot", action="store_true", help="leave Spot prices as they are")
    parser.add_argument("--accept-jumps", action="store_true", help="take prices that changed threefold and more, too")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write to this folder, not where estimates read prices")
    parser.add_argument("--json", action="store_true", help="print what was written as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Look up, tell, write."""
    from agentenv.cli.prices.price_list import LISTED_IN
    from agentenv.cli.prices.refresh import Sources, refresh
    from agentenv.core import prices
    from agentenv.core.prices.book import price_book, regions

    folder = arguments.out or Path(prices.__file__).parent
    results: list[dict[str, Any]] = []
    wanted = [region_of(text) for text in arguments.region] if arguments.region else regions()
    for region in wanted:
        sources = Sources(_client(arguments, "pricing", LISTED_IN), _client(arguments, "ec2", region))
        old = price_book(region) if region in regions() else None
        found = asked(lambda s=sources, r=region, o=old: refresh(
            r, o, s, datetime.now(UTC), jumps=arguments.accept_jumps, live=not arguments.no_spot
        ))  # fmt: skip
        file = folder / f"{region}.toml"
        write(file, found)
        sys.stdout.write(told(file, found))
        results.append(as_json(file, found))
    if arguments.json:
        sys.stdout.write(json.dumps({"written": results}) + "\n")
    return OK


def region_of(text: str) -> str:
    """A region by its form; its name becomes a file's."""
    from agentenv.config.mistakes import nearest
    from agentenv.config.regions import KNOWN, REGION

    if not re.fullmatch(REGION, text):
        hint = nearest(text, KNOWN) or "write one such as us-east-1"
        raise Refusal(f"{text!r} is no AWS region; {hint}")
    return text


def _client(arguments: argparse.Namespace, service: str, region: str) -> Any:
    import boto3
    from botocore.exceptions import ProfileNotFound

    try:
        session: Any = boto3.Session(profile_name=arguments.profile)
    except ProfileNotFound as missing:
        raise Refusal(str(missing)) from missing
    return session.client(service, region_name=region)


def asked(ask: Any) -> Refreshed:
    """What AWS answers; its refusal, or its silence, in words."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return ask()
    except (BotoCoreError, ClientError) as failure:
        raise Refusal(f"AWS does not say what things cost, and nothing was written: {failure}") from failure


def write(file: Path, found: Refreshed) -> None:
    """Put the book into its file, if reading it gives the same book."""
    from agentenv.cli.reports.plots import put
    from agentenv.core.prices.book import read_book
    from agentenv.core.prices.write import price_book_text

    text = price_book_text(found.book)
    if read_book(text) != found.book:
        raise Refusal(f"{file.name} would not be read as it was meant, and was not written")
    put(file, text.encode())


def told(file: Path, found: Refreshed) -> str:
    """What became of a region's prices."""
    lines = [f"{file.name}: {len(found.changes)} changed, {len(found.kept)} stay as old as they were"]
    for change in found.changes:
        old = "new" if change.old is None else f"{change.old.normalize():f}"
        lines.append(f"  {change.name:<26} {old:>12} → {change.new.normalize():f}")
    lines += [f"  {name:<26} stays: {why}" for name, why in found.kept.items()]
    return "\n".join(lines) + "\n"


def as_json(file: Path, found: Refreshed) -> dict[str, Any]:
    """The same as data."""
    return {
        "region": found.book.region,
        "file": str(file),
        "changed": [
            {"name": one.name, "old": None if one.old is None else float(one.old), "new": float(one.new)}
            for one in found.changes
        ],
        "kept": found.kept,
    }
