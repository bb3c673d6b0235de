"""The report of a proof: a page for people, and JSON that is signed with an Ed25519 key of its author."""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from agentenv.cli.main import CommandError

Report = dict[str, Any]

_MARKS = {"held": "✓", "broken": "✗", "not tried": "-"}


def signing_key(path: Path) -> Ed25519PrivateKey:
    """Return the key in a file, which is created for its owner alone where it does not exist."""
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except FileNotFoundError:
        key = Ed25519PrivateKey.generate()
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return key
    except ValueError as error:
        raise CommandError(f"{path} is not a private key in PEM: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise CommandError(f"{path} is not an Ed25519 key")
    return key


def signed(report: Mapping[str, Any], key: Ed25519PrivateKey) -> Report:
    """Return the report with its signature and the public key."""
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    signature = key.sign(_canonical(report))
    return {
        **report,
        "public_key": base64.b64encode(public).decode(),
        "signature": base64.b64encode(signature).decode(),
    }


def verify(report: Mapping[str, Any]) -> str:
    """Return the public key that signed a report; a `CommandError` where its content is another one."""
    content = {name: value for name, value in report.items() if name not in {"public_key", "signature"}}
    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(report["public_key"]))
        public.verify(base64.b64decode(report["signature"]), _canonical(content))
    except (KeyError, ValueError, TypeError):
        raise CommandError("the report has no signature") from None
    except InvalidSignature:
        raise CommandError("the report was changed after it was signed") from None
    return str(report["public_key"])


def page(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    counts = Counter(row["verdict"] for row in report["promises"])
    result = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    where = "a rehearsal" if report["simulated"] else f"account {report['account']}"
    lines = [
        f"# Proof of stack {report['stack']}",
        "",
        f"{result}, in {where}, {report['region']}, {report['began']}.",
        f"It took {report['seconds'] / 60:.0f} minutes and cost about ${report['cost']:.2f}.",
        "",
        "| | promise | evidence | s |",
        "|---|---|---|---|",
        *(
            f"| {_MARKS[row['verdict']]} {row['verdict']} | {_cell(row['statement'])} | {_cell(row['evidence'])} "
            f"| {row['seconds']:.0f} |"
            for row in report["promises"]
        ),
        "",
        f"agentenv {report['version']}, revision {report['revision'] or 'unknown'}.",
        f"`agentenv prove --verify report.json` checks the signature of `{report['public_key']}`.",
        "",
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _canonical(report: Mapping[str, Any]) -> bytes:
    return json.dumps(report, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
