"""The control plane that serves every EKS cluster, registered by the process that started it.

Without one, each cluster has an address and an authority of its own, where nothing answers.
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
    from agentenv.rehearsal.cloud.store import Record, Store

_KIND: Final = "_eks.announced"


class InvalidRegistration(Exception):
    """The registration is invalid; the message says why."""


@dataclass(frozen=True)
class Plane:
    """A control plane: its address, its authority, the issuer of its tokens, and where its deployer is."""

    endpoint: str
    certificate_authority: str
    issuer: str
    deployer_address: str = ""  # from which `pulumi up` calls; empty: from everywhere

    @classmethod
    def parse(cls, document: Any) -> Plane:
        """Validate a registration; an invalid one would fail in clients much later."""
        names = ("endpoint", "certificate_authority", "issuer")
        if (
            not isinstance(document, dict)
            or set(document) - {"deployer_address"} != set(names)
            or not all(isinstance(v, str) for v in document.values())
        ):
            raise InvalidRegistration(f"A registration is an object of {', '.join(names)}, each a text.")
        for name in ("endpoint", "issuer"):
            parts = urlsplit(document[name])
            if parts.scheme != "https" or not parts.hostname:
                raise InvalidRegistration(f"{name} is '{document[name]}', and has to be an https address.")
        try:
            authority = base64.b64decode(document["certificate_authority"], validate=True)
        except binascii.Error:
            authority = b""
        if b"-----BEGIN CERTIFICATE-----" not in authority:
            raise InvalidRegistration("certificate_authority is not the base64 of a certificate in PEM.")
        return cls(**document)

    def apply_to(self, cluster: Any) -> None:
        """Set the plane's address, authority and issuer on one of moto's clusters."""
        cluster.endpoint = self.endpoint
        cluster.certificate_authority = {"data": self.certificate_authority}
        cluster.identity = {"oidc": {"issuer": self.issuer}}


def handle(store: Store, method: str, body: bytes) -> dict[str, Any]:
    """Handle the page of the plane: POST registers one, DELETE removes it, GET returns it; `{}` without one."""
    if method == "POST":
        try:
            register(store, Plane.parse(json.loads(body)))
        except ValueError as error:
            raise InvalidRegistration(f"A registration is JSON: {error}.") from None
    elif method == "DELETE":
        unregister(store)
    plane = registered_plane(store)
    return asdict(plane) if plane else {}


def register(store: Store, plane: Plane) -> None:
    """Serve every cluster from this plane, existing ones too."""
    _records(store)["plane"] = asdict(plane)
    for account in get_backend("eks").values():
        for backend in account.values():
            for cluster in backend.clusters.values():
                plane.apply_to(cluster)


def unregister(store: Store) -> None:
    """Give new clusters addresses of their own again."""
    _records(store).clear()


def registered_plane(store: Store) -> Plane | None:
    """Return the registered plane, or None."""
    record = _records(store).get("plane")
    return Plane(**record) if record else None


def _records(store: Store) -> dict[str, Record]:
    return store.records(_KIND, "", "")
