"""Create resources that exist before a program runs, under the ARNs that a stack file names.

AWS chooses the ids of keys and monitors itself, so its API cannot create one with a given id.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from moto.ec2.models.amis import Ami
from moto.ecr.models import Image

from agentenv.core.iam.documents import policy_document
from agentenv.rehearsal.cloud.rows.cost_explorer import MONITORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentenv.rehearsal.cloud.moto_backend import MotoBackend
    from agentenv.rehearsal.cloud.store import Store

# The actual content of the policy is not known; here it allows everything.
_ALLOW_ALL: Final = json.dumps(policy_document({"Effect": "Allow", "Action": "*", "Resource": "*"}))


_INDEX: Final = "application/vnd.oci.image.index.v1+json"


class InvalidArns(Exception):
    """The list of ARNs is invalid; the message says why."""


def handle(moto: MotoBackend, store: Store, body: bytes) -> list[str]:
    """Handle the page of existing resources: POST a list of ARNs.

    A certificate and a hosted zone have names, too, an AMI has an architecture, and an image in ECR has tags. Their ARN
    is in an object with them: `{"arn": …, "names": […]}`. An image in ECR has the ARN of its repository, with a digest.
    """
    try:
        rows = json.loads(body)
    except ValueError as error:
        raise InvalidArns(f"What exists is a list of ARNs, as JSON: {error}.") from None
    if not isinstance(rows, list):
        raise InvalidArns("What exists is a list of ARNs.")
    for row in rows:
        arn, names = (row.get("arn"), row.get("names") or []) if isinstance(row, dict) else (row, [])
        for pattern, create in _KINDS.items():
            if (match := re.fullmatch(pattern, str(arn))) is not None:
                create(moto, store, match, names)
                break
        else:
            raise InvalidArns(f"'{arn}' is the ARN of nothing that can exist beforehand.")
    return [row["arn"] if isinstance(row, dict) else row for row in rows]


def _policy(moto: MotoBackend, _: Store, arn: re.Match[str], __: Names) -> None:
    moto.backend("iam", arn["account"], "aws").create_policy("", arn["path"], _ALLOW_ALL, arn["name"], [])


def _key(moto: MotoBackend, _: Store, arn: re.Match[str], __: Names) -> None:
    backend = moto.backend("kms", arn["account"], arn["region"])
    key = backend.create_key(None, "ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT", "", [])
    del backend.keys[key.id]
    key.id, key.arn = arn["id"], arn.string
    backend.keys[key.id] = key


def _monitor(_: MotoBackend, store: Store, arn: re.Match[str], __: Names) -> None:
    record = {"MonitorArn": arn.string, "MonitorName": "existing", "MonitorType": "DIMENSIONAL"}
    store.records(MONITORS, arn["account"], "aws")[arn.string] = {**record, "MonitorDimension": "SERVICE"}


def _transit_gateway(moto: MotoBackend, _: Store, arn: re.Match[str], __: Names) -> None:
    backend = moto.backend("ec2", arn["account"], arn["region"])
    gateway = backend.create_transit_gateway("existing")
    del backend.transit_gateways[gateway.id]
    gateway.id = arn["id"]
    backend.transit_gateways[gateway.id] = gateway


def _image(moto: MotoBackend, _: Store, arn: re.Match[str], names: Names) -> None:
    backend = moto.backend("ec2", arn["account"], arn["region"])
    if len(names) != 1:
        raise InvalidArns(f"{arn.string} needs its architecture.")
    owner, id_, (architecture,) = arn["account"], arn["id"], names
    backend.amis[id_] = Ami(backend, id_, name="existing", owner_id=owner, architecture=architecture)


def _container_image(moto: MotoBackend, _: Store, arn: re.Match[str], tags: Names) -> None:
    """Push an image under its digest, with its tags, for both processors."""
    backend = moto.backend("ecr", arn["account"], arn["region"])
    if arn["name"] not in backend.repositories:
        backend.create_repository(arn["name"], arn["account"], None, None, None, [])
    platforms = [{"platform": {"os": "linux", "architecture": name}} for name in ("amd64", "arm64")]
    manifest = json.dumps({"schemaVersion": 2, "mediaType": _INDEX, "manifests": platforms})
    image: Any = Image(arn["account"], tags[0] if tags else "", manifest, arn["name"], _INDEX, arn["digest"])
    image.image_tags = list(tags)
    backend.repositories[arn["name"]].images.append(image)


def _certificate(moto: MotoBackend, store: Store, arn: re.Match[str], names: Names) -> None:
    """Issue a certificate by the authority of the load balancers, which serve it."""
    certificate, key = store.balancers.certificate(arn.string, names)
    backend = moto.backend("acm", arn["account"], arn["region"])
    imported = backend.import_certificate(certificate.read_bytes(), key.read_bytes(), None, None, [])
    bundle = backend._certificates.pop(imported)
    bundle.arn, bundle.type = arn.string, "AMAZON_ISSUED"
    backend._certificates[bundle.arn] = bundle


def _zone(moto: MotoBackend, _: Store, arn: re.Match[str], names: Names) -> None:
    """Create a hosted zone; its ARN has no account, so that is the second name."""
    domain, account = names
    backend = moto.backend("route53", account, "aws")
    zone = backend.create_hosted_zone(f"{domain}.", private_zone=False)
    del backend.zones[zone.resource_id]
    zone.resource_id = arn["id"]
    backend.zones[zone.resource_id] = zone


def _secret(moto: MotoBackend, _: Store, arn: re.Match[str], __: Names) -> None:
    backend = moto.backend("secretsmanager", arn["account"], arn["region"])
    backend.create_secret(
        arn["name"],
        secret_string="rehearsal",  # noqa: S106 - of nothing real
        secret_binary=None,
        description=None,
        tags=[],
        kms_key_id=None,
        client_request_token=None,
        replica_regions=[],
        force_overwrite=False,
    )
    backend.secrets[arn["name"]].arn = arn.string


Names = list[str]
_KINDS: Final[dict[str, Callable[[MotoBackend, Store, re.Match[str], Names], None]]] = {
    r"arn:aws[a-z-]*:iam::(?P<account>\d{12}):policy(?P<path>/(?:.*/)?)(?P<name>[^/]+)": _policy,
    r"arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):key/(?P<id>[A-Za-z0-9-]+)": _key,
    r"arn:aws[a-z-]*:ce::(?P<account>\d{12}):anomalymonitor/[A-Za-z0-9-]+": _monitor,
    r"arn:aws[a-z-]*:ec2:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):transit-gateway/(?P<id>tgw-[0-9a-f]+)": (
        _transit_gateway
    ),
    r"arn:aws[a-z-]*:ec2:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):image/(?P<id>ami-[0-9a-f]+)": _image,
    (
        r"arn:aws[a-z-]*:ecr:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):repository/(?P<name>[^@]+)"
        r"@(?P<digest>sha256:[0-9a-f]{64})"
    ): _container_image,
    r"arn:aws[a-z-]*:acm:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):certificate/[A-Za-z0-9-]+": _certificate,
    r"arn:aws[a-z-]*:route53:::hostedzone/(?P<id>Z[A-Z0-9]+)": _zone,
    r"arn:aws[a-z-]*:secretsmanager:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):secret:(?P<name>.+)-\w{6}": _secret,
}
