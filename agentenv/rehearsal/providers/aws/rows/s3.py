"""S3: buckets, and their settings as separate resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import api_calls, name_mapping
from agentenv.rehearsal.providers.aws.row import (
    AutoName,
    Call,
    CustomCreate,
    CustomStep,
    Problem,
    ReadCall,
    ResourceType,
    Tagging,
    Template,
)
from agentenv.rehearsal.providers.aws.value_kinds import POLICY, one_of

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

BUCKET: Final = {"Bucket": "$id"}
NOT_FOUND: Final = ("NoSuchBucket", "404")
ITS_OWN: Final = "it is deprecated; give it a resource of its own"
OWNER: Final = "it is deprecated, and says nothing about the bucket"
SMALLEST: Final = "all_storage_classes_128K"


def _create_bucket(op: Operation) -> Mapping[str, Any]:
    parameters: dict[str, Any] = {"Bucket": op.inputs["bucket"]}
    if op.region != "us-east-1":
        parameters["CreateBucketConfiguration"] = {"LocationConstraint": op.region}
    if op.inputs.get("objectLockEnabled"):
        parameters["ObjectLockEnabledForBucket"] = True
    return op.call("CreateBucket", **parameters)


def _read_bucket(op: Operation) -> Mapping[str, Any] | None:
    versions = op.call("HeadBucket", Bucket=op.id, ignored_errors=NOT_FOUND)
    if not versions:
        return None
    tags = op.call("GetBucketTagging", Bucket=op.id, ignored_errors=("NoSuchTagSet",))
    lock = op.call("GetObjectLockConfiguration", Bucket=op.id, ignored_errors=("ObjectLockConfigurationNotFoundError",))
    return {"Bucket": op.id, "TagSet": tags.get("TagSet", []), "ObjectLockEnabled": bool(lock)}


def _empty_bucket(op: Operation) -> None:
    """Delete all objects and versions, if `forceDestroy` is set."""
    if not op.inputs.get("forceDestroy"):
        return
    while True:
        response = op.call("ListObjectVersions", Bucket=op.id, ignored_errors=NOT_FOUND)
        versions = [*response.get("Versions", []), *response.get("DeleteMarkers", [])]
        if not versions:
            return
        objects = [{"Key": version["Key"], "VersionId": version["VersionId"]} for version in versions]
        op.call("DeleteObjects", Bucket=op.id, Delete={"Objects": objects, "Quiet": True})


BUCKET_ROW = ResourceType(
    type="aws:s3/bucket:Bucket",
    service="s3",
    create=CustomCreate(_create_bucket, ("bucket", "objectLockEnabled")),
    id="$in.bucket",
    read=_read_bucket,
    delete=(
        CustomStep(_empty_bucket, ("forceDestroy",)),
        Call("DeleteBucket", constants=BUCKET, ignored_errors=NOT_FOUND),
    ),
    output_sources={
        "arn": Template("arn:{partition}:s3:::{id}"),
        "bucketDomainName": Template("{id}.s3.amazonaws.com"),
        "bucketRegionalDomainName": Template("{id}.s3.{region}.amazonaws.com"),
        "bucketRegion": Template("{region}"),
        "bucketNamespace": lambda _, __: "global",
    },
    auto_name=AutoName(input="bucket", max_length=63, prefix_input="bucketPrefix"),
    tags=Tagging(
        tag_operation="PutBucketTagging",
        untag_operation="DeleteBucketTagging",
        constants=BUCKET,
        tags_member="Tagging",
        path="TagSet",
        wrapper="TagSet",
    ),
    write_only=frozenset({"bucketPrefix", "forceDestroy"}),
    defaults={"forceDestroy": False},
    unsupported={
        **dict.fromkeys(("accelerationStatus", "acl", "corsRules", "grants", "lifecycleRules", "logging"), ITS_OWN),
        **dict.fromkeys(("objectLockConfiguration", "policy", "replicationConfiguration", "requestPayer"), ITS_OWN),
        **dict.fromkeys(("serverSideEncryptionConfiguration", "versioning", "website"), ITS_OWN),
        "bucketNamespace": "namespaces of an account are not simulated",
    },
    retry_delete_on=("OperationAborted",),
    parse_import_id=lambda text: (text, {"bucket": text}),
)


# -- settings that are replaced as a whole -----------------------------------------------------------------------------


def _put_setting(operation: str, member: str, shaped: Any) -> Any:
    """Return the step that puts one setting of a bucket; `shaped` builds its member from the inputs."""

    def put(op: Operation) -> Mapping[str, Any]:
        shape = api_calls.members("s3", operation)[member]
        op.call(operation, Bucket=op.value("bucket"), **{member: name_mapping.send(shaped(op.inputs), shape, {})})
        return {}

    return put


def _update_setting(put: Any) -> Any:
    def update(op: Operation) -> None:
        if not op.creating:
            put(op)

    return update


def _bucket_of(op: Operation, _: Mapping[str, Any]) -> Any:
    return op.id


def _setting(kind: str, put: Any, delete: str, read: ReadCall, inputs: tuple[str, ...], **more: Any) -> ResourceType:
    return ResourceType(
        type=f"aws:s3/{kind[0].lower()}{kind[1:]}:{kind}",
        service="s3",
        create=CustomCreate(put, ("bucket", *inputs)),
        id="$in.bucket",
        read=read,
        updates=(CustomStep(_update_setting(put), inputs),),
        delete=(Call(delete, constants=BUCKET, ignored_errors=(*NOT_FOUND, *read.not_found_errors)),),
        output_sources={"bucket": _bucket_of, **more.pop("output_sources", {})},
        parse_import_id=lambda text: (text, {"bucket": text}),
        **more,
    )


BLOCKS: Final = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
PUBLIC_ACCESS_BLOCK = _setting(
    "BucketPublicAccessBlock",
    _put_setting(
        "PutPublicAccessBlock", "PublicAccessBlockConfiguration", lambda i: {k: bool(i.get(k)) for k in BLOCKS}
    ),
    "DeletePublicAccessBlock",
    ReadCall(
        "GetPublicAccessBlock",
        BUCKET,
        "PublicAccessBlockConfiguration",
        not_found_errors=(*NOT_FOUND, "NoSuchPublicAccessBlockConfiguration"),
    ),
    BLOCKS,
    defaults=dict.fromkeys(BLOCKS, False),
    unsupported={"skipDestroy": "use retainOnDelete to keep it"},
)

OWNERSHIP_CONTROLS = _setting(
    "BucketOwnershipControls",
    _put_setting("PutBucketOwnershipControls", "OwnershipControls", lambda i: {"rules": [i["rule"]]}),
    "DeleteBucketOwnershipControls",
    ReadCall(
        "GetBucketOwnershipControls",
        BUCKET,
        "OwnershipControls",
        not_found_errors=(*NOT_FOUND, "OwnershipControlsNotFoundError"),
    ),
    ("rule",),
    output_sources={"rule": "Rules[0]"},
    value_kinds={"rule.objectOwnership": one_of("BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter")},
)


def _encryption_problems(inputs: Mapping[str, Any]) -> list[Problem]:
    """Report a KMS key without KMS encryption, and the reverse."""
    rules = inputs.get("rules")
    encryptions = (
        [(rule.get("applyServerSideEncryptionByDefault") or {}) for rule in rules] if isinstance(rules, list) else []
    )
    return [
        (f"rules[{number}].applyServerSideEncryptionByDefault.kmsMasterKeyId", "is valid only with a KMS algorithm")
        for number, encryption in enumerate(encryptions)
        if isinstance(encryption, dict)
        and encryption.get("kmsMasterKeyId")
        and encryption.get("sseAlgorithm") == "AES256"
    ]


ENCRYPTION = _setting(
    "BucketServerSideEncryptionConfiguration",
    _put_setting("PutBucketEncryption", "ServerSideEncryptionConfiguration", lambda i: {"rules": i["rules"]}),
    "DeleteBucketEncryption",
    ReadCall("GetBucketEncryption", BUCKET, "ServerSideEncryptionConfiguration", not_found_errors=NOT_FOUND),
    ("rules",),
    unsupported={"expectedBucketOwner": OWNER},
    value_kinds={"rules.applyServerSideEncryptionByDefault.sseAlgorithm": one_of("AES256", "aws:kms", "aws:kms:dsse")},
    validators=(_encryption_problems,),
)


def _put_lifecycle(op: Operation) -> Mapping[str, Any]:
    shape = api_calls.members("s3", "PutBucketLifecycleConfiguration")["LifecycleConfiguration"]
    rules = [
        {**rule, "filter": rule.get("filter") or {"prefix": rule.get("prefix") or ""}} for rule in op.inputs["rules"]
    ]
    smallest = op.value("transitionDefaultMinimumObjectSize") or SMALLEST
    op.call(
        "PutBucketLifecycleConfiguration",
        Bucket=op.value("bucket"),
        LifecycleConfiguration=name_mapping.send({"rules": rules}, shape, {}),
        TransitionDefaultMinimumObjectSize=smallest,
    )
    return {}


def _filter_problems(inputs: Mapping[str, Any]) -> list[Problem]:
    rules = inputs.get("rules")
    return [
        (f"rules[{number}].filter.and.tags", "the stand-in provider does not support this: use one tag")
        for number, rule in enumerate(rules if isinstance(rules, list) else [])
        if isinstance(rule, dict) and ((rule.get("filter") or {}).get("and") or {}).get("tags")
    ]


LIFECYCLE = _setting(
    "BucketLifecycleConfiguration",
    _put_lifecycle,
    "DeleteBucketLifecycle",
    ReadCall("GetBucketLifecycleConfiguration", BUCKET, not_found_errors=(*NOT_FOUND, "NoSuchLifecycleConfiguration")),
    ("rules", "transitionDefaultMinimumObjectSize"),
    replace_on_changes=frozenset({"bucket"}),
    unsupported={"expectedBucketOwner": OWNER, "timeouts": "no operation takes long"},
    value_kinds={
        "rules.status": one_of("Enabled", "Disabled"),
        "transitionDefaultMinimumObjectSize": one_of(SMALLEST, "varies_by_storage_class"),
    },
    validators=(_filter_problems,),
)

POLICY_ROW = ResourceType(
    type="aws:s3/bucketPolicy:BucketPolicy",
    service="s3",
    create=Call("PutBucketPolicy", ("bucket", "policy")),
    id="$in.bucket",
    read=ReadCall("GetBucketPolicy", BUCKET, not_found_errors=(*NOT_FOUND, "NoSuchBucketPolicy")),
    updates=(Call("PutBucketPolicy", ("policy",), constants=BUCKET, condition=lambda op: not op.creating),),
    delete=(Call("DeleteBucketPolicy", constants=BUCKET, ignored_errors=(*NOT_FOUND, "NoSuchBucketPolicy")),),
    output_sources={"bucket": _bucket_of},
    value_kinds={"policy": POLICY},
    parse_import_id=lambda text: (text, {"bucket": text}),
)

ROWS: Final = (BUCKET_ROW, PUBLIC_ACCESS_BLOCK, OWNERSHIP_CONTROLS, ENCRYPTION, LIFECYCLE, POLICY_ROW)
