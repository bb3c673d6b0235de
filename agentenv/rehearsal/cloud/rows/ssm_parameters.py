"""SSM parameters of AWS itself: the node images that EKS publishes."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from moto.ec2.models.amis import Ami

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.rows.eks_common import catalog, now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentenv.rehearsal.cloud.request_context import RequestContext
    from agentenv.rehearsal.cloud.responses import Response

_NODE_IMAGE = re.compile(
    r"/aws/service/eks/optimized-ami/(?P<version>[0-9.]+)/amazon-linux-2023/(?P<processor>arm64|x86_64)"
    r"/(?P<variant>standard|nvidia|neuron)"
    r"/(?P<name>amazon-eks-node-al2023-(?P=processor)-(?P=variant)-(?P=version)-(?P<release>v[0-9]{8}))/image_id"
)
# The account that owns the node images of most regions.
_OWNER = "602401143452"


def get_parameter(context: RequestContext) -> Mapping[str, Any] | Response:
    """Return the image of a node release, or what moto has."""
    name = context.parameters["Name"]
    match = _NODE_IMAGE.fullmatch(name)
    if match is None or not _is_published(match):
        return context.forward()
    image = f"ami-{hashlib.sha256(f'{context.region}{name}'.encode()).hexdigest()[:17]}"
    backend = context.backend("ec2")
    if image not in backend.amis:
        architecture = match["processor"]
        backend.amis[image] = Ami(
            backend, image, name=match["name"], owner_id=_OWNER, architecture=architecture, public=True
        )
    parameter = {"Name": name, "Type": "String", "Value": image, "Version": 1, "DataType": "text"}
    arn = f"arn:aws:ssm:{context.region}::parameter{name}"
    return {"Parameter": {**parameter, "ARN": arn, "LastModifiedDate": now()}}


def _is_published(match: re.Match[str]) -> bool:
    return match["version"] in catalog()["cluster_versions"] and match["release"] in catalog()["node_images"]


ROWS = (OperationHandler("ssm", "GetParameter", get_parameter),)
