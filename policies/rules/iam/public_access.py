"""IAM, everybody: what a word or a switch makes public, without any policy that says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentenv.policies.rules.registry import Outcome, fail, forbid_switch, resources, rule, unknown
from agentenv.policies.view.fields import Field, is_one_of
from agentenv.policies.view.iam.conditions import says_whose
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
    title="No bucket and no function is everybody's by a word",
    severity="Critical",
    why="An ACL for everybody, or a function's permission for every principal, needs no policy to let the world in, and"
    " stands where nobody looks for one.",
    do="Leave acl and grants out; give a function's permission a principal, or a sourceArn with the account, and its"
    " address the authorizationType AWS_IAM.",
    equivalents={
        "Checkov": ("CKV_AWS_20", "CKV_AWS_57", "CKV_AWS_258", "CKV_AWS_301"),
        "Security Hub": ("S3.2", "S3.3", "Lambda.1"),
    },
    about=resources(*BUCKETS, *ACLS, *OBJECTS, PERMISSION, LAYER, URL),
    defaults="Private, and nobody but the account, where nothing is said (S3 user guide, canned ACLs; Lambda API"
    " reference, AddPermission).",
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
    title="What would make a bucket public stays blocked",
    severity="High",
    why="AWS blocks it for every new bucket: a block that is taken away leaves one careless policy or ACL between the"
    " bucket and the world.",
    do=f"Set {', '.join(SWITCHES)} to true, or leave the resource out.",
    equivalents={
        "Checkov": ("CKV_AWS_53", "CKV_AWS_54", "CKV_AWS_55", "CKV_AWS_56"),
        "Security Hub": ("S3.8",),
    },
    about=resources(*BLOCKS),
    defaults="All four are on for a new bucket, and off where this resource does not say so (S3 user guide, blocking"
    " public access; plugin documents).",
)
def public_access_block(block: Resource) -> Iterator[Outcome]:
    """Each of the four switches."""
    for key in SWITCHES:
        yield from forbid_switch(block.at(key), {False, None}, f"{key} is off")


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
    return isinstance(field.raw, str) and says_whose(key, field.raw)
