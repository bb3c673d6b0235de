"""The EC2 requests of the simulated Karpenter, parsed as a stream.

boto3's client is not used: its model of EC2 and a parsed list of every instance type would take 40 MB permanently,
and a rehearsal shares the machine with an engine.
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
_TIMEOUT_SECONDS = 30


def zones(account: Account, terms: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the zones of the subnets that a node class selects: by id, or by tags that all have to match."""
    names: set[str] = set()
    for term in terms:
        filters = [(f"tag:{name}", value) for name, value in (term.get("tags") or {}).items()]
        # A single star matches any value of the tag
        filters = [(name, value) if value != "*" else ("tag-key", name.removeprefix("tag:")) for name, value in filters]
        if "id" in term:
            filters.append(("subnet-id", term["id"]))
        parameters = {
            f"Filter.{number}.{part}": text
            for number, (name, value) in enumerate(filters, 1)
            for part, text in (("Name", name), ("Value.1", value))
        }
        names |= {
            _text(item, "availabilityZone") for item in _items(account, "DescribeSubnets", "subnetSet", parameters)
        }
    return sorted(names)


def images_exist(account: Account, terms: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether an image is selected: by an alias of AWS, which always has one, or by id."""
    ids = [term["id"] for term in terms if "id" in term]
    filters = {"Filter.1.Name": "image-id"} | {f"Filter.1.Value.{number}": id_ for number, id_ in enumerate(ids, 1)}
    aliased = any("alias" in term for term in terms)
    return aliased or (bool(ids) and any(True for _ in _items(account, "DescribeImages", "imagesSet", filters)))


def instance_types(account: Account) -> list[InstanceType]:
    """Return every instance type of the region."""
    return [
        InstanceType(
            _text(item, "instanceType"),
            int(_text(item, "vCpuInfo/defaultVCpus")),
            int(_text(item, "memoryInfo/sizeInMiB")),
            "arm64" if "arm64" in _texts(item, "processorInfo/supportedArchitectures/item") else "amd64",
            _text(item, "hypervisor"),
            _local_disk(item),
            sum(int(count) for count in _texts(item, "gpuInfo/gpus/item/count")),
            _text(item, "gpuInfo/gpus/item/manufacturer").lower(),
        )
        for item in _items(account, "DescribeInstanceTypes", "instanceTypeSet", {})
    ]


def _items(account: Account, action: str, inside: str, parameters: Mapping[str, str]) -> Iterator[ET.Element]:
    """Yield the items of a response's list, one at a time, over all its pages."""
    next_page: dict[str, str] = {}
    while True:
        token = ""
        with DIRECTLY.open(
            _signed_request(account, {**parameters, **next_page, "Action": action}), timeout=_TIMEOUT_SECONDS
        ) as response:
            path: list[str] = []
            for event, element in ET.iterparse(response, ("start", "end")):  # noqa: S314 - from our own endpoint
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
        next_page = {"NextToken": token}


def _signed_request(account: Account, parameters: Mapping[str, str]) -> urllib.request.Request:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    form = urlencode({**parameters, "Version": _VERSION})
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    request = AWSRequest("POST", f"{account.endpoint}/", headers=headers, data=form)
    SigV4Auth(Credentials(account.access_key, account.secret_key), "ec2", account.region).add_auth(request)
    return urllib.request.Request(  # noqa: S310 - our own loopback server
        f"{account.endpoint}/", data=form.encode(), headers=dict(request.headers.items())
    )


def _local_disk(item: ET.Element) -> int:
    """Return the size in GB of an instance's local disks, if they are NVMe."""
    is_nvme = _text(item, "instanceStorageInfo/nvmeSupport") in {"required", "supported"}
    return int(_text(item, "instanceStorageInfo/totalSizeInGB") or 0) if is_nvme else 0


def _text(element: ET.Element, path: str) -> str:
    return element.findtext(path) or ""


def _texts(element: ET.Element, path: str) -> list[str]:
    return [child.text or "" for child in element.findall(path)]
