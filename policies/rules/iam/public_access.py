"""IAM rules about public access without a policy: ACLs, permissions of functions, and public access blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentenv.core.iam.conditions import names_owner
from agentenv.policies.rules.registry import Outcome, fail, forbid, forbid_boolean, resources, rule, unknown
from agentenv.policies.view.fields import Field
from agentenv.policies.view.resource import Resource

BUCKETS: Final = ("aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2")
ACLS: Final = ("aws:s3/bucketAcl:BucketAcl", "aws:s3/bucketAclV2:BucketAclV2")
OBJECTS: Final = ("aws:s3/bucketObject:BucketObject", "aws:s3/bucketObjectv2:BucketObjectv2")
PERMISSION: Final = "aws:lambda/permission:Permission"
LAYER: Final = "aws:lambda/layerVersionPermission:LayerVersionPermission"
URL: Final = "aws:lambda/functionUrl:FunctionUrl"
# Inputs that limit the callers of a permission, with the condition key of the same meaning
CALLER_INPUTS: Final = {
    PERMISSION: {
        "sourceAccount": "aws:sourceaccount",
        "sourceArn": "aws:sourcearn",
        "principalOrgId": "aws:principalorgid",
    },
    LAYER: {"organizationId": "aws:principalorgid"},
}
BLOCKS: Final = (
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
    "aws:s3/accountPublicAccessBlock:AccountPublicAccessBlock",
)
SWITCHES: Final = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
PUBLIC: Final = frozenset({"public-read", "public-read-write", "authenticated-read"})
# Everybody, and every AWS customer (S3 user guide, predefined groups)
GROUPS: Final = ("/groups/global/AllUsers", "/groups/global/AuthenticatedUsers")


@rule(
    id="IAM-11",
    title="Buckets and functions are not public by an ACL, permission or URL",
    severity="Critical",
    why="A public ACL, or a permission of a function for every principal, makes it public without a policy, where"
    " reviews easily miss it.",
    fix="Remove acl and grants. Set a principal, or a sourceArn with the account, in permissions of functions, and the"
    " authorizationType AWS_IAM in function URLs.",
    equivalents={
        "Checkov": ("CKV_AWS_20", "CKV_AWS_57", "CKV_AWS_258", "CKV_AWS_301"),
        "Security Hub": ("S3.2", "S3.3", "Lambda.1"),
    },
    applies_to=resources(*BUCKETS, *ACLS, *OBJECTS, PERMISSION, LAYER, URL),
    defaults="Private to the account by default (S3 user guide, canned ACLs; Lambda API reference, AddPermission).",
)
def public_without_policy(resource: Resource) -> Iterator[Outcome]:
    """Check ACLs, grants, permissions of functions, and function URLs."""
    if resource.type == URL:
        authorization = resource.at("authorizationType")
        yield from forbid(authorization, lambda value: value == "NONE", "everybody can call it")
        return
    if resource.type in CALLER_INPUTS:
        yield from _permission(resource)
        return
    acl = resource.at("acl")
    yield from forbid(acl, lambda value: value in PUBLIC, f"the ACL {acl.raw} is for everybody")
    grants = [grant.at("uri") for grant in resource.at("grants").elements()]
    grants += [grant.at("grantee", "uri") for grant in resource.at("accessControlPolicy", "grants").elements()]
    for uri in grants:
        yield from forbid(
            uri, lambda value: isinstance(value, str) and value.endswith(GROUPS), "a grant is for everybody"
        )


@rule(
    id="IAM-12",
    title="Public access to buckets is blocked",
    severity="High",
    why="AWS blocks public access to every new bucket. Without the block, one wrong policy or ACL makes a bucket"
    " public.",
    fix=f"Set {', '.join(SWITCHES)} to true, or remove the resource.",
    equivalents={
        "Checkov": ("CKV_AWS_53", "CKV_AWS_54", "CKV_AWS_55", "CKV_AWS_56"),
        "Security Hub": ("S3.8",),
    },
    applies_to=resources(*BLOCKS),
    defaults="All four are true for a new bucket, and false if this resource omits them (S3 user guide, blocking public"
    " access; provider documents).",
)
def public_access_block(block: Resource) -> Iterator[Outcome]:
    """Check the four settings."""
    for key in SWITCHES:
        yield from forbid_boolean(block.at(key), {False, None}, f"{key} is not true")


def _permission(resource: Resource) -> Iterator[Outcome]:
    principal = resource.at("principal")
    if principal.unknown:
        yield unknown(principal)
    elif principal.raw == "*":
        limits = [(resource.at(name), key) for name, key in CALLER_INPUTS[resource.type].items()]
        if any(_names_owner(field, key) for field, key in limits):
            return
        doubt = next((field for field, _ in limits if field.unknown), None)
        yield fail(principal, "allows everybody") if doubt is None else unknown(doubt)


def _names_owner(field: Field, key: str) -> bool:
    return isinstance(field.raw, str) and names_owner(key, field.raw)
