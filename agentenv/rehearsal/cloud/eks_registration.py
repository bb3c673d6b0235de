"""A control plane that is EKS to its callers: announced by whoever raised it, and then what clusters are told to be.

Without one, each cluster has an address and an authority of its own, and nothing answers there.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from moto.backends import get_backend

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.store import Record, Shelves

_KIND: Final = "_eks.announced"


class NotAnnounced(Exception):
    """What is wrong with an announcement."""


@dataclass(frozen=True)
class Plane:
    """Where a control plane answers, who signed its certificate, and who signs its tokens."""

    endpoint: str
    certificate_authority: str
    issuer: str

    @classmethod
    def of(cls, said: Any) -> Plane:
        """An announcement, checked, for a client would fail on it much later and in other words."""
        names = ("endpoint", "certificate_authority", "issuer")
        if not isinstance(said, dict) or set(said) != set(names) or not all(isinstance(v, str) for v in said.values()):
            raise NotAnnounced(f"An announcement is an object of {', '.join(names)}, each a text.")
        for name in ("endpoint", "issuer"):
            parts = urlsplit(said[name])
            if parts.scheme != "https" or not parts.hostname:
                raise NotAnnounced(f"{name} is '{said[name]}', and has to be an https address.")
        try:
            authority = base64.b64decode(said["certificate_authority"], validate=True)
        except binascii.Error:
            authority = b""
        if b"-----BEGIN CERTIFICATE-----" not in authority:
            raise NotAnnounced("certificate_authority is not the base64 of a certificate in PEM.")
        return cls(**said)

    def put_on(self, cluster: Any) -> None:
        """Make it moto's cluster's own."""
        cluster.endpoint = self.endpoint
        cluster.certificate_authority = {"data": self.certificate_authority}
        cluster.identity = {"oidc": {"issuer": self.issuer}}


def answer(shelves: Shelves, method: str, body: bytes) -> dict[str, Any]:
    """The page of the plane: POST announces one, DELETE withdraws it, GET tells it; `{}` if there is none."""
    if method == "POST":
        try:
            announce(shelves, Plane.of(json.loads(body)))
        except ValueError as error:
            raise NotAnnounced(f"An announcement is JSON: {error}.") from None
    elif method == "DELETE":
        withdraw(shelves)
    plane = announced(shelves)
    return asdict(plane) if plane else {}


def announce(shelves: Shelves, plane: Plane) -> None:
    """Every cluster is served by this plane from now on, those that exist too."""
    _shelf(shelves)["plane"] = asdict(plane)
    for account in get_backend("eks").values():
        for backend in account.values():
            for cluster in backend.clusters.values():
                plane.put_on(cluster)


def withdraw(shelves: Shelves) -> None:
    """Clusters that are made from now on have addresses of their own again."""
    _shelf(shelves).clear()


def announced(shelves: Shelves) -> Plane | None:
    """The plane, if there is one."""
    said = _shelf(shelves).get("plane")
    return Plane(**said) if said else None


def _shelf(shelves: Shelves) -> dict[str, Record]:
    return shelves.shelf(_KIND, "", "")
