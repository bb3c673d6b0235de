"""S3: buckets, and each of their settings as a resource of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import api_calls as calls
from agentenv.rehearsal.providers.aws import name_mapping as spelling
from agentenv.rehearsal.providers.aws.row import Call, Do, Form, Look, Make, Name, Problem, Row, Tags
from agentenv.rehearsal.providers.aws.value_kinds import POLICY, among

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

BUCKET: Final = {"Bucket": "$id"}
GONE: Final = ("NoSuchBucket", "404")
ITS_OWN: Final = "it is deprecated; give it a resource of its own"
OWNER: Final = "it is deprecated, and says nothing about the bucket"
SMALLEST: Final = "all_storage_classes_128K"


def _make_bucket(s: Situation) -> Mapping[str, Any]:
    asked: dict[str, Any] = {"Bucket": s.inputs["bucket"]}
    if s.region != "us-east-1":
        asked["CreateBucketConfiguration"] = {"LocationConstraint": s.region}
    if s.inputs.get("objectLockEnabled"):
        asked["ObjectLockEnabledForBucket"] = True
    return s.call("CreateBucket", **asked)


def _find_bucket(s: Situation) -> Mapping[str, Any] | None:
    found = s.call("HeadBucket", Bucket=s.id, forgives=GONE)
    if not found:
        return None
    tags = s.call("GetBucketTagging", Bucket=s.id, forgives=("NoSuchTagSet",))
    lock = s.call("GetObjectLockConfiguration", Bucket=s.id, forgives=("ObjectLockConfigurationNotFoundError",))
    return {"Bucket": s.id, "TagSet": tags.get("TagSet", []), "ObjectLockEnabled": bool(lock)}


def _empty_bucket(s: Situation) -> None:
    """Everything in it, in every version; only where the program said that it may go with its objects."""
    if not s.inputs.get("forceDestroy"):
        return
    while True:
        there = s.call("ListObjectVersions", Bucket=s.id, forgives=GONE)
        found = [*there.get("Versions", []), *there.get("DeleteMarkers", [])]
        if not found:
            return
        named = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in found]
        s.call("DeleteObjects", Bucket=s.id, Delete={"Objects": named, "Quiet": True})


BUCKET_ROW = Row(
    type="aws:s3/bucket:Bucket",
    service="s3",
    create=Make(_make_bucket, ("bucket", "objectLockEnabled")),
    id="$in.bucket",
    find=_find_bucket,
    delete=(Do(_empty_bucket, ("forceDestroy",)), Call("DeleteBucket", given=BUCKET, forgives=GONE)),
    shows={
        "arn": Form("arn:{partition}:s3:::{id}"),
        "bucketDomainName": Form("{id}.s3.amazonaws.com"),
        "bucketRegionalDomainName": Form("{id}.s3.{region}.amazonaws.com"),
        "bucketRegion": Form("{region}"),
        "bucketNamespace": lambda _, __: "global",
    },
    name=Name(input="bucket", longest=63, prefix_input="bucketPrefix"),
    tags=Tags(
        put="PutBucketTagging", drop="DeleteBucketTagging", on=BUCKET, member="Tagging", at="TagSet", whole="TagSet"
    ),
    unread=frozenset({"bucketPrefix", "forceDestroy"}),
    defaults={"forceDestroy": False},
    refused={
        **dict.fromkeys(("accelerationStatus", "acl", "corsRules", "grants", "lifecycleRules", "logging"), ITS_OWN),
        **dict.fromkeys(("objectLockConfiguration", "policy", "replicationConfiguration", "requestPayer"), ITS_OWN),
        **dict.fromkeys(("serverSideEncryptionConfiguration", "versioning", "website"), ITS_OWN),
        "bucketNamespace": "namespaces of an account are not simulated",
    },
    busy=("OperationAborted",),
    parse=lambda text: (text, {"bucket": text}),
)


# -- settings that are put as a whole ---------------------------------------------------------------------------------


def _put(operation: str, member: str, shaped: Any) -> Any:
    """The operation that says one setting of a bucket anew; `shaped` makes its member of the inputs."""

    def put(s: Situation) -> Mapping[str, Any]:
        shape = calls.members("s3", operation)[member]
        s.call(operation, Bucket=s.value("bucket"), **{member: spelling.send(shaped(s.inputs), shape, {})})
        return {}

    return put


def _again(put: Any) -> Any:
    def renew(s: Situation) -> None:
        if not s.creating:
            put(s)

    return renew


def _of_bucket(s: Situation, _: Mapping[str, Any]) -> Any:
    return s.id


def _setting(kind: str, put: Any, drop: str, find: Look, takes: tuple[str, ...], **more: Any) -> Row:
    return Row(
        type=f"aws:s3/{kind[0].lower()}{kind[1:]}:{kind}",
        service="s3",
        create=Make(put, ("bucket", *takes)),
        id="$in.bucket",
        find=find,
        sets=(Do(_again(put), takes),),
        delete=(Call(drop, given=BUCKET, forgives=(*GONE, *find.gone)),),
        shows={"bucket": _of_bucket, **more.pop("shows", {})},
        parse=lambda text: (text, {"bucket": text}),
        **more,
    )


BLOCKS: Final = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
PUBLIC_ACCESS_BLOCK = _setting(
    "BucketPublicAccessBlock",
    _put("PutPublicAccessBlock", "PublicAccessBlockConfiguration", lambda i: {k: bool(i.get(k)) for k in BLOCKS}),
    "DeletePublicAccessBlock",
    Look(
        "GetPublicAccessBlock",
        BUCKET,
        "PublicAccessBlockConfiguration",
        gone=(*GONE, "NoSuchPublicAccessBlockConfiguration"),
    ),
    BLOCKS,
    defaults=dict.fromkeys(BLOCKS, False),
    refused={"skipDestroy": "what a program made stays with retainOnDelete"},
)

OWNERSHIP_CONTROLS = _setting(
    "BucketOwnershipControls",
    _put("PutBucketOwnershipControls", "OwnershipControls", lambda i: {"rules": [i["rule"]]}),
    "DeleteBucketOwnershipControls",
    Look("GetBucketOwnershipControls", BUCKET, "OwnershipControls", gone=(*GONE, "OwnershipControlsNotFoundError")),
    ("rule",),
    shows={"rule": "Rules[0]"},
    kinds={"rule.objectOwnership": among("BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter")},
)


def _one_algorithm(inputs: Mapping[str, Any]) -> list[Problem]:
    """A key of KMS is named for encryption by KMS, and only there."""
    rules = inputs.get("rules")
    said = [(rule.get("applyServerSideEncryptionByDefault") or {}) for rule in rules] if isinstance(rules, list) else []
    return [
        (f"rules[{number}].applyServerSideEncryptionByDefault.kmsMasterKeyId", "goes with an algorithm of KMS only")
        for number, one in enumerate(said)
        if isinstance(one, dict) and one.get("kmsMasterKeyId") and one.get("sseAlgorithm") == "AES256"
    ]


ENCRYPTION = _setting(
    "BucketServerSideEncryptionConfiguration",
    _put("PutBucketEncryption", "ServerSideEncryptionConfiguration", lambda i: {"rules": i["rules"]}),
    "DeleteBucketEncryption",
    Look("GetBucketEncryption", BUCKET, "ServerSideEncryptionConfiguration", gone=GONE),
    ("rules",),
    refused={"expectedBucketOwner": OWNER},
    kinds={"rules.applyServerSideEncryptionByDefault.sseAlgorithm": among("AES256", "aws:kms", "aws:kms:dsse")},
    rules=(_one_algorithm,),
)


def _put_lifecycle(s: Situation) -> Mapping[str, Any]:
    shape = calls.members("s3", "PutBucketLifecycleConfiguration")["LifecycleConfiguration"]
    rules = [
        {**rule, "filter": rule.get("filter") or {"prefix": rule.get("prefix") or ""}} for rule in s.inputs["rules"]
    ]
    smallest = s.value("transitionDefaultMinimumObjectSize") or SMALLEST
    s.call(
        "PutBucketLifecycleConfiguration",
        Bucket=s.value("bucket"),
        LifecycleConfiguration=spelling.send({"rules": rules}, shape, {}),
        TransitionDefaultMinimumObjectSize=smallest,
    )
    return {}


def _plain_filters(inputs: Mapping[str, Any]) -> list[Problem]:
    rules = inputs.get("rules")
    return [
        (f"rules[{number}].filter.and.tags", "the stand-in provider cannot carry this out: use one tag")
        for number, rule in enumerate(rules if isinstance(rules, list) else [])
        if isinstance(rule, dict) and ((rule.get("filter") or {}).get("and") or {}).get("tags")
    ]


LIFECYCLE = _setting(
    "BucketLifecycleConfiguration",
    _put_lifecycle,
    "DeleteBucketLifecycle",
    Look("GetBucketLifecycleConfiguration", BUCKET, gone=(*GONE, "NoSuchLifecycleConfiguration")),
    ("rules", "transitionDefaultMinimumObjectSize"),
    replaces=frozenset({"bucket"}),
    refused={"expectedBucketOwner": OWNER, "timeouts": "nothing here takes long"},
    kinds={
        "rules.status": among("Enabled", "Disabled"),
        "transitionDefaultMinimumObjectSize": among(SMALLEST, "varies_by_storage_class"),
    },
    rules=(_plain_filters,),
)

POLICY_ROW = Row(
    type="aws:s3/bucketPolicy:BucketPolicy",
    service="s3",
    create=Call("PutBucketPolicy", ("bucket", "policy")),
    id="$in.bucket",
    find=Look("GetBucketPolicy", BUCKET, gone=(*GONE, "NoSuchBucketPolicy")),
    sets=(Call("PutBucketPolicy", ("policy",), given=BUCKET, when=lambda s: not s.creating),),
    delete=(Call("DeleteBucketPolicy", given=BUCKET, forgives=(*GONE, "NoSuchBucketPolicy")),),
    shows={"bucket": _of_bucket},
    kinds={"policy": POLICY},
    parse=lambda text: (text, {"bucket": text}),
)

ROWS: Final = (BUCKET_ROW, PUBLIC_ACCESS_BLOCK, OWNERSHIP_CONTROLS, ENCRYPTION, LIFECYCLE, POLICY_ROW)
