"""Links to attach to a workspace: the service, the workspace and the rights, and as fragment the key that has them.

A fragment is not sent to a server, so the key is in no log of one.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from agentenv.cli.main import CommandError

if TYPE_CHECKING:
    from agentenv.client import Client
    from agentenv.client.api import NewKey

_PATH = "/attach/"
FROM_INPUT = "-"


@dataclass(frozen=True)
class AttachLink:
    """A link to attach to a workspace."""

    service: str
    workspace: str
    key: str = field(repr=False)


def create_link(client: Client, workspace: str, *, rights: str, wake: bool, seconds: int) -> tuple[str, NewKey]:
    """Return a new link, and its key; who has it may look at the workspace, or use it as well."""
    scopes = ["read", *(["use"] if rights == "use" else []), *(["wake"] if wake else [])]
    key = client.create_key(
        {"name": "link", "scopes": scopes, "expires_in": seconds, "workspace": workspace}  # pyright: ignore[reportArgumentType]
    )
    named = urlencode({"rights": ",".join(key["scopes"]), "until": key["expires"]}, safe=",:")
    return f"{client.address}{_PATH}{workspace}?{named}#{key['key']}", key


def read_link(text: str) -> AttachLink:
    """Return a link that was given, or that comes from standard input; raise a `CommandError` for another text."""
    url = sys.stdin.readline().strip() if text == FROM_INPUT else text
    try:
        parts = urlsplit(url)
        prefix, path, workspace = parts.path.rpartition(_PATH)
    except ValueError:
        raise CommandError("the link cannot be read") from None
    if parts.scheme not in {"http", "https"} or not path or not workspace or "/" in workspace or not parts.fragment:
        raise CommandError("this is not a link of `agentenv workspace attach ID --link`")
    return AttachLink(f"{parts.scheme}://{parts.netloc}{prefix}", workspace, parts.fragment)
