"""The two questions that Karpenter's stand-in asks EC2, read as they arrive.

Not through boto3's client: its model of EC2 and a parsed list of every instance type would take 40 MB for good, and a
rehearsal shares the machine with an engine.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

from agentenv.rehearsal.controlplane.nodes.karpenter_launches import InstanceType
from agentenv.rehearsal.controlplane.ports import DIRECTLY

if TYPE_CHECKING:
    from agentenv.rehearsal.controlplane.auth.account import Account

_VERSION = "2016-11-15"
_PATIENCE_SECONDS = 30


def zones(account: Account, terms: Sequence[Mapping[str, Any]]) -> list[str]:
    """The zones of the subnets that a node class selects: by id, or by tags that all have to match."""
    found: set[str] = set()
    for term in terms:
        filters = [(f"tag:{name}", value) for name, value in (term.get("tags") or {}).items()]
        # A lone star asks for the tag, whatever its value
        filters = [(name, value) if value != "*" else ("tag-key", name.removeprefix("tag:")) for name, value in filters]
        if "id" in term:
            filters.append(("subnet-id", term["id"]))
        asked = {
            f"Filter.{number}.{part}": text
            for number, (name, value) in enumerate(filters, 1)
            for part, text in (("Name", name), ("Value.1", value))
        }
        found |= {_text(item, "availabilityZone") for item in _items(account, "DescribeSubnets", "subnetSet", asked)}
    return sorted(found)


def instance_types(account: Account) -> list[InstanceType]:
    """Every instance type of the region."""
    return [
        InstanceType(
            _text(item, "instanceType"),
            int(_text(item, "vCpuInfo/defaultVCpus")),
            int(_text(item, "memoryInfo/sizeInMiB")),
            "arm64" if "arm64" in _texts(item, "processorInfo/supportedArchitectures/item") else "amd64",
            _text(item, "hypervisor"),
            _local_disk(item),
            sum(int(found) for found in _texts(item, "gpuInfo/gpus/item/count")),
            _text(item, "gpuInfo/gpus/item/manufacturer").lower(),
        )
        for item in _items(account, "DescribeInstanceTypes", "instanceTypeSet", {})
    ]


def _items(account: Account, action: str, inside: str, asked: Mapping[str, str]) -> Iterator[ET.Element]:
    """The items of an answer's list, one at a time, over all its pages."""
    more: dict[str, str] = {}
    while True:
        token = ""
        with DIRECTLY.open(_signed(account, {**asked, **more, "Action": action}), timeout=_PATIENCE_SECONDS) as answer:
            path: list[str] = []
            for event, element in ET.iterparse(answer, ("start", "end")):  # noqa: S314 - from our own endpoint
                name = element.tag = element.tag.rpartition("}")[2]
                if event == "start":
                    path.append(name)
                    continue
                path.pop()
                if name == "item" and path[1:] == [inside]:
                    yield element
                    element.clear()
                elif name == "nextToken" and len(path) == 1:
                    token = element.text or ""
        if not token:
            return
        more = {"NextToken": token}


def _signed(account: Account, asked: Mapping[str, str]) -> urllib.request.Request:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    form = urlencode({**asked, "Version": _VERSION})
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    request = AWSRequest("POST", f"{account.endpoint}/", headers=headers, data=form)
    SigV4Auth(Credentials(account.access_key, account.secret_key), "ec2", account.region).add_auth(request)
    return urllib.request.Request(  # noqa: S310 - our own loopback server
        f"{account.endpoint}/", data=form.encode(), headers=dict(request.headers.items())
    )


def _local_disk(item: ET.Element) -> int:
    """The disks that come with an instance, where they are NVMe, in GB."""
    wanted = _text(item, "instanceStorageInfo/nvmeSupport") in {"required", "supported"}
    return int(_text(item, "instanceStorageInfo/totalSizeInGB") or 0) if wanted else 0


def _text(element: ET.Element, path: str) -> str:
    return element.findtext(path) or ""


def _texts(element: ET.Element, path: str) -> list[str]:
    return [found.text or "" for found in element.findall(path)]
