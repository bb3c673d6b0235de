"""Copy the runtimes that nodes install to the mirror of a stack.

The mirror is the bucket that the stack creates (`network.mirrors.bucket`), or yours (`network.mirrors.files`). The
files are those of the pinned versions, for the processors of the stack's node pools. Each is verified by its pinned
digest before it is uploaded, and one that is there already is skipped. Run it after the first `up`, and after an
upgrade of this package.

For a network without internet access, fill a folder elsewhere with `--to`, and upload it with `--from`. The caller
needs `s3:ListBucket`, `s3:GetObject` and `s3:PutObject` in the bucket.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.cli.arguments import add_stack_options
from agentenv.cli.main import FAILED, OK, CommandError

if TYPE_CHECKING:
    import argparse

    from agentenv.cli.runtime_copies import Store
    from agentenv.config import Settings
    from agentenv.core.nodes.mirrors import RuntimeFile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_stack_options(parser)
    parser.add_argument(
        "--from", dest="source", metavar="M", help="an address or folder with copies (default: the public addresses)"
    )
    parser.add_argument("--to", metavar="DIR", type=Path, help="copy to this folder, not to the mirror")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def run(args: argparse.Namespace) -> int:
    """Copy what the mirror lacks; the exit code is 1 if a file cannot be copied."""
    from agentenv.cli.preflight.needs import pools_of
    from agentenv.cli.runtime_copies import CopyError, Folder, copy
    from agentenv.cli.stack_files import selected_settings
    from agentenv.core.nodes.mirrors import runtime_files

    settings, progress = selected_settings(args.stack, args.file), _Progress()
    name, store = (str(args.to), Folder(args.to)) if args.to else _bucket(settings, progress)
    rows: list[dict[str, Any]] = []
    for file in runtime_files(pools_of(settings)):
        row: dict[str, Any] = {"path": file.path, "digest": file.digest, "state": "present", "why": ""}
        try:
            if copy(file, store, args.source, progress):
                row["state"] = "copied"
        except CopyError as error:
            row |= {"state": "failed", "why": str(error)}
        sys.stderr.write(f"{row['state']:<8} {file.path}" + (f": {row['why']}" if row["why"] else "") + "\n")
        rows.append(row)
    if not rows:
        sys.stderr.write("the nodes of this stack download no runtime\n")
    if args.json:
        sys.stdout.write(json.dumps({"to": name, "files": rows}) + "\n")
    return FAILED if any(row["state"] == "failed" for row in rows) else OK


def _bucket(settings: Settings, progress: _Progress) -> tuple[str, Store]:
    """Return the bucket of the stack's mirror; raise an error if there is none."""
    from botocore.exceptions import ClientError

    from agentenv.cli.preflight.aws_calls import Account, AwsCallError
    from agentenv.cli.runtime_copies import Bucket, is_missing, location

    account = Account(settings.region)
    try:
        place = location(settings, account.identity["Account"])
    except AwsCallError as error:
        raise CommandError(str(error)) from None
    if place is None and settings.network.mirrors.files:
        raise CommandError("network.mirrors.files is not the address of a bucket; use --to, and copy the folder there")
    if place is None:
        raise CommandError("the stack has no mirror; set network.mirrors.bucket to true")
    s3 = Account(place.region).client("s3")
    try:
        s3.head_bucket(Bucket=place.bucket)
    except ClientError as error:
        if is_missing(error) and place.created:
            raise CommandError(f"the bucket {place.bucket} does not exist; `pulumi up` creates it") from None
        raise CommandError(f"the bucket {place.bucket}: {error}") from None
    return place.bucket, Bucket(place, s3, progress)


class _Progress:
    """Shows at a terminal how much of a file was downloaded and uploaded."""

    def __init__(self) -> None:
        self._path, self._moved = "", 0

    def __call__(self, file: RuntimeFile, count: int) -> None:
        if file.path != self._path:
            self._path, self._moved = file.path, 0
        before, self._moved = self._moved >> 20, self._moved + count
        if sys.stderr.isatty() and self._moved >> 20 != before:
            sys.stderr.write(f"\r{file.path}: {self._moved >> 20} MiB moved\r")
            sys.stderr.flush()
