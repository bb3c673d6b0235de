"""IAM, trust: who may take on a role, and whom the policies of keys, queues and buckets let in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, resources, rule, unknown
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.iam.conditions import Condition
from agentenv.policies.view.iam.roles import ROLE, documents_of, inline, role_assignments
from agentenv.policies.view.iam.statements import Statement, statements, unknown_in
from agentenv.policies.view.resource import Resource

WEB_IDENTITY: Final = "sts:AssumeRoleWithWebIdentity"
TYPES: Final = {
    "aws:kms/key:Key": "policy",
    "aws:kms/keyPolicy:KeyPolicy": "policy",
    "aws:s3/bucket:Bucket": "policy",
    "aws:s3/bucketPolicy:BucketPolicy": "policy",
    "aws:s3/bucketV2:BucketV2": "policy",
    "aws:sqs/queue:Queue": "policy",
    "aws:sqs/queuePolicy:QueuePolicy": "policy",
    "aws:sns/topic:Topic": "policy",
    "aws:sns/topicPolicy:TopicPolicy": "policy",
    "aws:ecr/registryPolicy:RegistryPolicy": "policy",
    "aws:ecr/repositoryPolicy:RepositoryPolicy": "policy",
    "aws:cloudwatch/eventBusPolicy:EventBusPolicy": "policy",
    "aws:cloudwatch/logResourcePolicy:LogResourcePolicy": "policyDocument",
    "aws:secretsmanager/secret:Secret": "policy",
    "aws:secretsmanager/secretPolicy:SecretPolicy": "policy",
    "aws:backup/vaultPolicy:VaultPolicy": "policy",
    "aws:dynamodb/resourcePolicy:ResourcePolicy": "policy",
}


@rule(
    id="IAM-04",
    title="A role for web identities trusts the tokens of one service account, with an audience",
    severity="Critical",
    why="If the trust policy names no subject, or a pattern, any token of the issuer can assume the role. Without an"
    " audience, it accepts tokens for other services.",
    fix="Compare the issuer's :sub with system:serviceaccount:<namespace>:<name> and its :aud with sts.amazonaws.com,"
    " both with StringEquals.",
    equivalents={"Checkov": ("CKV_AWS_358",), "AWS": ("EKS documents: IAM roles for service accounts",)},
    applies_to=resources(ROLE),
    defaults="A trust policy checks only the keys that it names (IAM documents). StringEquals has no wildcards.",
)
def one_account(role: Resource) -> Iterator[Outcome]:
    """Each statement that lets tokens in."""
    document = role.at("assumeRolePolicy")
    if unknown_in(document) is not None:
        yield unknown(document)
        return
    for one in statements(document):
        federated = one.principals("Federated")
        if one.allows is False or one.does(WEB_IDENTITY) is False or not federated:
            continue
        if one.field.unknown or one.allows is None or any(name.unknown for name in federated):
            yield unknown(one.field)
            continue
        if not any(":oidc-provider/" in str(name.raw) for name in federated):
            # Others have no subjects: SAML, and AWS's own pools of users
            continue
        yield from _subject(one)
        if not _compared(one, ":aud"):
            yield fail(one.field, "takes tokens that were made for anybody")


@rule(
    id="IAM-08",
    title="No role can be assumed by everybody",
    severity="Critical",
    why="A role that trusts every principal can be assumed by every AWS customer.",
    fix="Name the account, role or service in Principal, and limit services with aws:SourceAccount.",
    equivalents={"Checkov": ("CKV_AWS_60",), "Security Hub": ("IAM.21",)},
    applies_to=resources(ROLE),
)
def trusts_everybody(role: Resource) -> Iterator[Outcome]:
    """By the principals of each statement; conditions that say who make it somebody's."""
    yield from _open(role, "assumeRolePolicy", "lets everybody take the role on")


@rule(
    id="IAM-09",
    title="Resource policies do not allow everybody",
    severity="Critical",
    why="A policy for every principal, without a condition on the caller, allows every AWS customer.",
    fix="Name principals, or compare aws:PrincipalOrgID, aws:SourceAccount, kms:CallerAccount or similar keys.",
    equivalents={
        "Checkov": ("CKV_AWS_32", "CKV_AWS_33", "CKV_AWS_70", "CKV_AWS_168", "CKV_AWS_169"),
        "Security Hub": ("KMS.5", "SQS.3"),
    },
    applies_to=resources(*TYPES),
    defaults="A key without a policy belongs to its account, through IAM (KMS documents). Other resources belong to"
    " their owner.",
)
def open_policy(resource: Resource) -> Iterator[Outcome]:
    """Statements that deny may be for everybody."""
    yield from _open(resource, TYPES[resource.type], "lets everybody in", by_address=True)


@rule(
    id="IAM-06",
    title="A role that several service accounts share checks their session tags",
    severity="High",
    why="Otherwise each of the service accounts can access the resources of all.",
    fix="Use a role for each class, or keep session tags enabled and compare aws:PrincipalTag/kubernetes-namespace in"
    " the policies of the role.",
    equivalents={"AWS": ("EKS documents: grant Pods access based on tags",)},
    applies_to=GRAPH,
    defaults="Pod Identity adds session tags by default. Sessions of web identities have none (EKS documents).",
)
def shared_role(graph: Graph) -> Iterator[Outcome]:
    """By who bears a role: its associations, and the annotations of accounts."""
    by_role: dict[str, list[tuple[object, object]]] = {}
    for one in role_assignments(graph):
        if one.association is not None:
            flag = one.association.at("disableSessionTags")
            if flag.unknown:
                yield unknown(flag)
            elif flag.raw is True:
                yield fail(flag, "sessions carry no tags, so nothing tells one account's from another's")
        if one.role.key is None:
            if one.role.field.unknown and len(role_assignments(graph)) > 1 and one.is_for_tenants(graph) is not False:
                yield unknown(one.role.field, "whether another account has the same role is not known yet")
            continue
        mine = (one.namespace, one.account.raw)
        others = by_role.setdefault(one.role.key, [])
        if others and mine not in others and _of_sandboxes(graph, one.role.key):
            if one.association is None:
                yield fail(one.role.field, "is a role that another account has too, and tokens carry no tags")
            else:
                yield from _compares_tags(graph, one.role.targets, one.association)
        others.append(mine)


def _of_sandboxes(graph: Graph, role: str) -> bool:
    return any(one.is_for_tenants(graph) for one in role_assignments(graph) if one.role.key == role)


def _compares_tags(graph: Graph, roles: tuple[Resource, ...], association: Resource) -> Iterator[Outcome]:
    texts = [_words(graph, role) for role in roles]
    if any(text is None for text in texts) or not roles:
        yield unknown(
            association.at("roleArn"), "whether the policies of the shared role compare tags is not known yet"
        )
    elif not all("aws:principaltag/" in (text or "") for text in texts):
        yield fail(
            association.at("roleArn"), "is a role that another account has too, and its policies compare no tags"
        )


def _words(graph: Graph, role: Resource) -> str | None:
    """The policies of a role as text; None where one is not known."""
    fields = [field for one in inline(graph, role) for field in documents_of(one)]
    if any(field.holds_unknown() for field in fields):
        return None
    return repr([field.raw for field in fields]).lower()


def _subject(one: Statement) -> Iterator[Outcome]:
    found = [condition for condition in one.conditions if condition.key.endswith(":sub")]
    if any(condition.key == "*" for condition in one.conditions):
        yield unknown(one.field.at("Condition"))
        return
    good = [condition for condition in found if condition.equals]
    if not good:
        yield fail(one.field, "takes tokens of every account of the issuer")
    for condition in good:
        for value in condition.values:
            if value.unknown:
                yield unknown(value)
            elif _pattern(condition, str(value.raw)):
                yield fail(value, "takes tokens of every account that fits a pattern")


def _pattern(condition: Condition, value: str) -> bool:
    """Whether a subject is more than one account's; a repository's branches and tags are one owner's."""
    if "like" not in condition.operator.lower():
        return False
    if value.startswith("repo:"):
        # repo:<owner>/<name>:<what runs>
        return any(mark in value.split(":", 2)[1] for mark in "*?") or value.count(":") < 2
    return "*" in value or "?" in value


def _compared(one: Statement, ending: str) -> bool:
    """Whether a key is compared with something; a star alone compares nothing."""
    if any(condition.key == "*" for condition in one.conditions):
        return True
    return any(
        condition.equals and all(value.unknown or set(str(value.raw)) - set("*?") for value in condition.values)
        for condition in one.conditions
        if condition.key.endswith(ending)
    )


def _open(resource: Resource, key: str, words: str, *, by_address: bool = False) -> Iterator[Outcome]:
    document = resource.at(key)
    if document.missing:
        return
    if unknown_in(document) is not None:
        yield unknown(document)
        return
    for one in statements(document):
        if one.allows is False:
            continue
        answer = one.for_anybody(by_address=by_address)
        if one.field.unknown or one.allows is None or answer is None:
            yield unknown(one.field)
        elif answer:
            yield fail(one.field, words)
