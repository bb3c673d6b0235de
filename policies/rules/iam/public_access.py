"""IAM, everybody: what a word or a switch makes public, without any policy that says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentenv.policies.rules.registry import Outcome, fail, forbid_boolean, resources, rule, unknown
from agentenv.policies.view.fields import Field, is_one_of
from agentenv.policies.view.iam.conditions import names_owner
from agentenv.policies.view.resource import Resource

BUCKETS: Final = ("aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2")
ACLS: Final = ("aws:s3/bucketAcl:BucketAcl", "aws:s3/bucketAclV2:BucketAclV2")
OBJECTS: Final = ("aws:s3/bucketObject:BucketObject", "aws:s3/bucketObjectv2:BucketObjectv2")
PERMISSION: Final = "aws:lambda/permission:Permission"
LAYER: Final = "aws:lambda/layerVersionPermission:LayerVersionPermission"
URL: Final = "aws:lambda/functionUrl:FunctionUrl"
# With what a permission says whose calls it is for, and the key of a condition that says the same
NARROWING: Final = {
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
# Everybody, and everybody who is a customer of AWS (S3 user guide, predefined groups)
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
def public_by_a_word(resource: Resource) -> Iterator[Outcome]:
    """The word of an ACL, each of its grants, the principal of a permission, and who may call an address."""
    if resource.type == URL:
        way = resource.at("authorizationType")
        if way.unknown:
            yield unknown(way)
        elif way.raw == "NONE":
            yield fail(way, "anybody may call it")
        return
    if resource.type in NARROWING:
        yield from _permission(resource)
        return
    acl = resource.at("acl")
    if acl.unknown:
        yield unknown(acl)
    elif is_one_of(acl, PUBLIC):
        yield fail(acl, f"the ACL {acl.raw} is for everybody")
    grants = [one.at("uri") for one in resource.at("grants").elements()]
    grants += [one.at("grantee", "uri") for one in resource.at("accessControlPolicy", "grants").elements()]
    for uri in grants:
        if uri.unknown:
            yield unknown(uri)
        elif isinstance(uri.raw, str) and uri.raw.endswith(GROUPS):
            yield fail(uri, "a grant is for everybody")


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
    """Each of the four switches."""
    for key in SWITCHES:
        yield from forbid_boolean(block.at(key), {False, None}, f"{key} is off")


def _permission(resource: Resource) -> Iterator[Outcome]:
    principal = resource.at("principal")
    if principal.unknown:
        yield unknown(principal)
    elif principal.raw == "*":
        said = [(resource.at(name), key) for name, key in NARROWING[resource.type].items()]
        if any(_says_whose(field, key) for field, key in said):
            return
        doubt = next((field for field, _ in said if field.unknown), None)
        yield fail(principal, "lets everybody in") if doubt is None else unknown(doubt)


def _says_whose(field: Field, key: str) -> bool:
    return isinstance(field.raw, str) and names_owner(key, field.raw)
