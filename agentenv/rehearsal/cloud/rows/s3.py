"""S3: tags that come with a new bucket, names that S3 takes, policies that are ones."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.iam import policy_documents as policy_text
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused
from agentenv.rehearsal.cloud.rows.eks_common import principal_exists

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

NAME = re.compile(r"(?!xn--|sthree-|amzn-s3-demo-)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?<!-s3alias)(?<!--ol-s3)(?<!\.mrap)")
POLICY_LENGTH = 20 * 1024


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def create(desk: Desk) -> Answer:
    """A bucket with the tags that the call brought, which moto leaves out."""
    name = desk.asked["Bucket"]
    if not NAME.fullmatch(name) or ".." in name or _is_address(name):
        raise Refused("InvalidBucketName", f"The specified bucket is not valid: {name}", 400)
    answer = desk.forward()
    tags = desk.asked.get("CreateBucketConfiguration", {}).get("Tags", [])
    if answer.ok and tags:
        desk.backend("s3").put_bucket_tagging(name, {tag["Key"]: tag["Value"] for tag in tags})
    return answer


def put_policy(desk: Desk) -> Answer:
    """A policy that S3 can read, about this bucket, naming principals that are there."""
    text, bucket = desk.asked["Policy"], desk.asked["Bucket"]
    found = policy_text.faults(text, policy_text.ON_KEY)
    if found:
        raise Refused("MalformedPolicy", found[0], 400)
    if policy_text.missing_principals(text, desk.account, lambda arn: principal_exists(desk, arn)):
        raise Refused("MalformedPolicy", "Invalid principal in policy", 400)
    document, _ = policy_text.read(text)
    about = re.compile(rf"arn:aws[\w-]*:s3:::{re.escape(bucket)}(/.*)?|\*|arn:aws[\w-]*:s3:::\*")
    for one in policy_text.statements(document):
        for resource in policy_text.listed(one.get("Resource", one.get("NotResource"))):
            if not about.fullmatch(resource):
                raise Refused("MalformedPolicy", "Policy has invalid resource", 400)
    if len(text.encode()) > POLICY_LENGTH:
        raise Refused("PolicyTooLarge", f"The policy is over {POLICY_LENGTH} bytes.", 400)
    block = getattr(desk.backend("s3").buckets.get(bucket), "public_access_block", None)
    blocked = block and str(block.block_public_policy).lower() == "true"
    if blocked and any(_public(one) for one in policy_text.statements(document)):
        raise Refused("AccessDenied", "public policies are blocked by the BlockPublicPolicy block setting", 403)
    return desk.forward()


def _public(statement: dict[str, Any]) -> bool:
    """Whether it lets in everybody; a condition is taken for one that does not."""
    principal = statement.get("Principal")
    everybody = principal == "*" or (
        isinstance(principal, dict) and "*" in policy_text.listed(principal.get("AWS", []))
    )
    return statement.get("Effect") == "Allow" and everybody and not statement.get("Condition")


def encryption(desk: Desk) -> Answer | dict[str, Any]:
    """How new objects are encrypted: by S3's own keys where nothing was said, which cannot be switched off."""
    bucket = desk.backend("s3").buckets.get(desk.asked["Bucket"])
    if bucket is None or bucket.encryption:
        return desk.forward()
    by_default = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}, "BucketKeyEnabled": False}
    return {"ServerSideEncryptionConfiguration": {"Rules": [by_default]}}


ROWS = (
    Row("s3", "CreateBucket", create),
    Row("s3", "PutBucketPolicy", put_policy),
    Row("s3", "GetBucketEncryption", encryption),
)
