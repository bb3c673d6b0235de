"""Share a port of a workspace: with teams, by link, or with everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from agentenv.client import Client
    from agentenv.client.api import PortSettings


def share_port(client: Client, args: argparse.Namespace) -> dict[str, Any]:
    """Share a port, and return how it is shared, with its URL: for `link` that of a new link."""
    settings: PortSettings = {"sharing": args.sharing, "wake": args.wake}
    if args.team:
        settings["teams"] = args.team
    shared = dict(client.share_port(args.workspace, args.port, settings))
    if args.sharing == "link":
        link = client.create_link(
            args.workspace, {"port": args.port, "expires_in": int(args.hours * 3600), "wake": args.wake}
        )
        return {**shared, "url": link["url"], "link": link["id"], "expires": link["expires"]}
    return shared
