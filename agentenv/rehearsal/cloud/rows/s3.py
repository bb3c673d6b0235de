"""S3: tags of new buckets, valid names, valid policies."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from agentenv.core.iam import documents
from agentenv.rehearsal.cloud.iam import policy_documents
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response
from agentenv.rehearsal.cloud.rows.eks_common import principal_exists

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

NAME = re.compile(r"(?!xn--|sthree-|amzn-s3-demo-)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?<!-s3alias)(?<!--ol-s3)(?<!\.mrap)")
POLICY_LENGTH = 20 * 1024


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def create(context: RequestContext) -> Response:
    """Create a bucket with the call's tags, which moto leaves out."""
    name = context.parameters["Bucket"]
    if not NAME.fullmatch(name) or ".." in name or _is_address(name):
        raise AwsError("InvalidBucketName", f"The specified bucket is not valid: {name}", 400)
    response = context.forward()
    tags = context.parameters.get("CreateBucketConfiguration", {}).get("Tags", [])
    if response.ok and tags:
        context.backend("s3").put_bucket_tagging(name, {tag["Key"]: tag["Value"] for tag in tags})
    return response


def put_policy(context: RequestContext) -> Response:
    """Set a valid policy for this bucket with existing principals."""
    text, bucket = context.parameters["Policy"], context.parameters["Bucket"]
    violations = policy_documents.violations(text, policy_documents.ON_KEY)
    if violations:
        raise AwsError("MalformedPolicy", violations[0], 400)
    if policy_documents.missing_principals(text, context.account, lambda arn: principal_exists(context, arn)):
        raise AwsError("MalformedPolicy", "Invalid principal in policy", 400)
    document, _ = documents.read(text)
    allowed = re.compile(rf"arn:aws[\w-]*:s3:::{re.escape(bucket)}(/.*)?|\*|arn:aws[\w-]*:s3:::\*")
    for statement in documents.statements(document):
        for resource in statement.texts("Resource") or statement.texts("NotResource"):
            if not allowed.fullmatch(str(resource)):
                raise AwsError("MalformedPolicy", "Policy has invalid resource", 400)
    if len(text.encode()) > POLICY_LENGTH:
        raise AwsError("PolicyTooLarge", f"The policy is over {POLICY_LENGTH} bytes.", 400)
    block = getattr(context.backend("s3").buckets.get(bucket), "public_access_block", None)
    blocked = block and str(block.block_public_policy).lower() == "true"
    if blocked and any(_is_public(statement) for statement in documents.statements(document)):
        raise AwsError("AccessDenied", "public policies are blocked by the BlockPublicPolicy block setting", 403)
    return context.forward()


def _is_public(statement: documents.Statement) -> bool:
    """Return whether a statement allows everybody: only conditions with fixed callers or networks keep it private."""
    return bool(statement.allows and statement.is_open_to_everybody(by_address=True))


def get_encryption(context: RequestContext) -> Response | dict[str, Any]:
    """Return the encryption of new objects: by default S3's own keys, which cannot be disabled."""
    bucket = context.backend("s3").buckets.get(context.parameters["Bucket"])
    if bucket is None or bucket.encryption:
        return context.forward()
    by_default = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}, "BucketKeyEnabled": False}
    return {"ServerSideEncryptionConfiguration": {"Rules": [by_default]}}


ROWS = (
    OperationHandler("s3", "CreateBucket", create),
    OperationHandler("s3", "PutBucketPolicy", put_policy),
    OperationHandler("s3", "GetBucketEncryption", get_encryption),
)
