"""Create resources that exist before a program runs, under the ARNs that a stack file names.

AWS chooses the ids of keys and monitors itself, so its API cannot create one with a given id.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from agentenv.rehearsal.cloud.rows.cost_explorer import MONITORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentenv.rehearsal.cloud.moto_backend import MotoBackend
    from agentenv.rehearsal.cloud.store import Store

# The actual content of the policy is not known; here it allows everything.
_ALLOW_ALL: Final = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
)


class InvalidArns(Exception):
    """The list of ARNs is invalid; the message says why."""


def handle(moto: MotoBackend, store: Store, body: bytes) -> list[str]:
    """Handle the page of existing resources: POST a list of ARNs of IAM policies, KMS keys and anomaly monitors."""
    try:
        arns = json.loads(body)
    except ValueError as error:
        raise InvalidArns(f"What exists is a list of ARNs, as JSON: {error}.") from None
    if not isinstance(arns, list):
        raise InvalidArns("What exists is a list of ARNs.")
    for arn in arns:
        for pattern, create in _KINDS.items():
            if (match := re.fullmatch(pattern, str(arn))) is not None:
                create(moto, store, match)
                break
        else:
            raise InvalidArns(f"'{arn}' is the ARN of no IAM policy, KMS key or anomaly monitor.")
    return arns


def _policy(moto: MotoBackend, _: Store, arn: re.Match[str]) -> None:
    moto.backend("iam", arn["account"], "aws").create_policy("", arn["path"], _ALLOW_ALL, arn["name"], [])


def _key(moto: MotoBackend, _: Store, arn: re.Match[str]) -> None:
    backend = moto.backend("kms", arn["account"], arn["region"])
    key = backend.create_key(None, "ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT", "", [])
    del backend.keys[key.id]
    key.id, key.arn = arn["id"], arn.string
    backend.keys[key.id] = key


def _monitor(_: MotoBackend, store: Store, arn: re.Match[str]) -> None:
    record = {"MonitorArn": arn.string, "MonitorName": "existing", "MonitorType": "DIMENSIONAL"}
    store.records(MONITORS, arn["account"], "aws")[arn.string] = {**record, "MonitorDimension": "SERVICE"}


_KINDS: Final[dict[str, Callable[[MotoBackend, Store, re.Match[str]], None]]] = {
    r"arn:aws[a-z-]*:iam::(?P<account>\d{12}):policy(?P<path>/(?:.*/)?)(?P<name>[^/]+)": _policy,
    r"arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):key/(?P<id>[A-Za-z0-9-]+)": _key,
    r"arn:aws[a-z-]*:ce::(?P<account>\d{12}):anomalymonitor/[A-Za-z0-9-]+": _monitor,
}
