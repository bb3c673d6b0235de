"""IAM rules about trust policies of roles, and about policies of resources such as keys and buckets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.core.iam.conditions import Condition
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, forbid_boolean, resources, rule, unknown
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.iam.roles import ROLE, documents_of, inline_policies_of, role_assignments
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
def web_identity_trust(role: Resource) -> Iterator[Outcome]:
    """Check each statement that accepts web identities."""
    document = role.at("assumeRolePolicy")
    if unknown_in(document) is not None:
        yield unknown(document)
        return
    for statement in statements(document):
        providers = statement.principals("Federated")
        if statement.allows is False or statement.matches_action(WEB_IDENTITY) is False or not providers:
            continue
        if statement.field.unknown or statement.allows is None or UNKNOWN in providers:
            yield unknown(statement.field)
            continue
        if not any(":oidc-provider/" in str(provider) for provider in providers):
            continue  # SAML providers and Cognito have no subjects
        yield from _subject(statement)
        if not _compares(statement, ":aud"):
            yield fail(statement.field, "accepts tokens for any audience")


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
    """Check the principals of each statement, and conditions on the caller."""
    yield from open_statements(role, "assumeRolePolicy", "allows everybody to assume the role")


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
    """Check each statement that allows."""
    yield from open_statements(resource, TYPES[resource.type], "allows everybody", by_address=True)


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
    """Compare the service accounts of each role: its associations and the annotations."""
    by_role: dict[str, list[tuple[object, object]]] = {}
    for assignment in role_assignments(graph):
        if assignment.association is not None:
            disabled = assignment.association.at("disableSessionTags")
            yield from forbid_boolean(disabled, {True}, "sessions have no tags to distinguish service accounts")
        if assignment.role.key is None:
            others = len(role_assignments(graph)) > 1
            if assignment.role.field.unknown and others and assignment.is_for_tenants(graph) is not False:
                yield unknown(
                    assignment.role.field, "whether another service account has the same role is not known yet"
                )
            continue
        account = (assignment.namespace, assignment.account.raw)
        accounts = by_role.setdefault(assignment.role.key, [])
        if accounts and account not in accounts and _is_for_sandboxes(graph, assignment.role.key):
            if assignment.association is None:
                yield fail(assignment.role.field, "is a role of several service accounts, without session tags")
            else:
                yield from _compares_tags(graph, assignment.role.targets, assignment.association)
        accounts.append(account)


def _is_for_sandboxes(graph: Graph, role: str) -> bool:
    return any(each.is_for_tenants(graph) for each in role_assignments(graph) if each.role.key == role)


def _compares_tags(graph: Graph, roles: tuple[Resource, ...], association: Resource) -> Iterator[Outcome]:
    texts = [_policy_text(graph, role) for role in roles]
    field = association.at("roleArn")
    if any(text is None for text in texts) or not roles:
        yield unknown(field, "whether the policies of the shared role compare session tags is not known yet")
    elif not all("aws:principaltag/" in (text or "") for text in texts):
        yield fail(field, "is a role of several service accounts, whose policies compare no session tags")


def _policy_text(graph: Graph, role: Resource) -> str | None:
    """Return the inline policies of a role as text; None if one is not known."""
    fields = [field for resource in inline_policies_of(graph, role) for field in documents_of(resource)]
    if any(field.holds_unknown() for field in fields):
        return None
    return repr([field.raw for field in fields]).lower()


def _subject(statement: Statement) -> Iterator[Outcome]:
    if any(condition.key == "*" for condition in statement.conditions):
        yield unknown(statement.field.at("Condition"))
        return
    subjects = [each for each in statement.conditions if each.key.endswith(":sub") and each.requires_match]
    if not subjects:
        yield fail(statement.field, "accepts tokens of every subject of the issuer")
    for condition in subjects:
        for value in statement.values_of(condition):
            if value.unknown:
                yield unknown(value)
            elif _matches_several(condition, str(value.raw)):
                yield fail(value, "accepts tokens of every subject that matches a pattern")


def _matches_several(condition: Condition, value: str) -> bool:
    """Return whether a subject matches several owners. The branches and tags of a repository have one owner."""
    if "like" not in condition.operator.lower():
        return False
    if value.startswith("repo:"):
        # repo:<owner>/<name>:<branch, tag or environment>
        return any(mark in value.split(":", 2)[1] for mark in "*?") or value.count(":") < 2
    return "*" in value or "?" in value


def _compares(statement: Statement, ending: str) -> bool:
    """Return whether a key is compared with a value that is not a wildcard."""
    if any(condition.key == "*" for condition in statement.conditions):
        return True
    return any(
        condition.requires_match and all(value is UNKNOWN or set(str(value)) - set("*?") for value in condition.values)
        for condition in statement.conditions
        if condition.key.endswith(ending)
    )


def open_statements(resource: Resource, key: str, message: str, *, by_address: bool = False) -> Iterator[Outcome]:
    """Yield the statements of a document that allow everybody."""
    document = resource.at(key)
    if document.missing:
        return
    if unknown_in(document) is not None:
        yield unknown(document)
        return
    for statement in statements(document):
        if statement.allows is False:
            continue
        answer = statement.is_open_to_everybody(by_address=by_address)
        if statement.field.unknown or statement.allows is None or answer is None:
            yield unknown(statement.field)
        elif answer:
            yield fail(statement.field, message)
