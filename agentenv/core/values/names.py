"""Limits of names in AWS and Kubernetes, and how a name that is too long is shortened.

`KINDS` has the length and characters of each kind of name. Settings, components and policies share it.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b32encode
from dataclasses import dataclass, field

from agentenv.core.values.errors import InvalidValueError

HASH_LENGTH = 8  # of base 32: forty bits, one chance in a million of a collision among a thousand names
SHORTEST_LIMIT = HASH_LENGTH + 4


class InvalidNameError(InvalidValueError):
    """A name that its service would reject."""


@dataclass(frozen=True)
class NameKind:
    """The limits of a kind of name."""

    label: str
    limit: int
    allowed: str
    pattern: str
    shortest: int = 1
    refused: str = r"(?!)"  # matches nothing
    _compiled: tuple[re.Pattern[str], re.Pattern[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_compiled", (re.compile(self.pattern), re.compile(self.refused)))

    def accepts(self, name: str) -> bool:
        """Return whether the service would accept the name."""
        pattern, refused = self._compiled
        return (
            self.shortest <= len(name) <= self.limit
            and pattern.fullmatch(name) is not None
            and refused.search(name) is None
        )

    def check(self, name: str) -> None:
        """Raise `InvalidNameError` unless the service would accept the name."""
        if not self.accepts(name):
            raise InvalidNameError(
                f"{self.label} {name!r}", f"{self.shortest} to {self.limit} of {self.allowed}", "rename it"
            )


_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_LABEL_WORDS = "a-z, 0-9 and '-', with a letter or digit at both ends"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_IAM = r"[A-Za-z0-9+=,.@_-]+"
_IAM_WORDS = "letters, digits and + = , . @ _ -"
_PLAIN = r"[A-Za-z0-9_-]+"
_PLAIN_WORDS = "letters, digits, '-' and '_'"
_DOTTED = r"[A-Za-z0-9._-]+"
_DOTTED_WORDS = "letters, digits, '.', '-' and '_'"
_BALANCER = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_BALANCER_WORDS = "letters, digits and '-', with a letter or digit at both ends"

KINDS: dict[str, NameKind] = {
    "iam-role": NameKind("IAM role", 64, _IAM_WORDS, _IAM),
    "iam-policy": NameKind("IAM policy", 128, _IAM_WORDS, _IAM),
    "iam-instance-profile": NameKind("IAM instance profile", 128, _IAM_WORDS, _IAM),
    "log-group": NameKind("log group", 512, "letters, digits and . - _ / #", r"[A-Za-z0-9._/#-]+"),
    "efs-creation-token": NameKind("EFS creation token", 64, "any characters", r".+"),
    "eks-cluster": NameKind(
        "EKS cluster", 100, f"{_PLAIN_WORDS}, a letter or digit first", r"[A-Za-z0-9][A-Za-z0-9_-]*"
    ),
    "sqs-queue": NameKind("SQS queue", 80, _PLAIN_WORDS, _PLAIN),
    "events-rule": NameKind("EventBridge rule", 64, _DOTTED_WORDS, _DOTTED),
    "kms-alias": NameKind(
        "KMS alias", 256, "alias/ and letters, digits, / _ -", r"alias/[A-Za-z0-9/_-]+", refused=r"\Aalias/aws/"
    ),
    "security-group": NameKind(
        "security group",
        255,
        "letters, digits, spaces and ._-:/()#,@[]+=&;{}!$*, not starting with sg-",
        r"[A-Za-z0-9 ._:/()#,@\[\]+=&;{}!$*-]+",
        refused=r"\Asg-",
    ),
    "s3-bucket": NameKind(
        "S3 bucket",
        63,
        "a-z, 0-9, '.' and '-', with a letter or digit at both ends",
        r"[a-z0-9][a-z0-9.-]*[a-z0-9]",
        shortest=3,
        refused=r"\.\.|\Axn--|\Asthree-|-s3alias\Z|--ol-s3\Z|\A\d+\.\d+\.\d+\.\d+\Z",
    ),
    "dynamodb-table": NameKind("DynamoDB table", 255, _DOTTED_WORDS, _DOTTED, shortest=3),
    "load-balancer": NameKind("load balancer", 32, _BALANCER_WORDS, _BALANCER, refused=r"\Ainternal-"),
    "target-group": NameKind("target group", 32, _BALANCER_WORDS, _BALANCER),
    "budget": NameKind("budget", 100, r"anything but ':' and '\'", r"[^:\\\r\n]+", refused=r"/action/"),
    "cloudwatch-alarm": NameKind("CloudWatch alarm", 255, "any characters", r".+"),
    "cloudwatch-dashboard": NameKind("CloudWatch dashboard", 255, _PLAIN_WORDS, _PLAIN),
    "sns-topic": NameKind("SNS topic", 256, _PLAIN_WORDS, _PLAIN),
    "backup-vault": NameKind("backup vault", 50, _PLAIN_WORDS, _PLAIN, shortest=2),
    "data-export": NameKind("data export", 128, _PLAIN_WORDS, _PLAIN),
    "anomaly-monitor": NameKind("anomaly monitor", 1024, "any characters", r".+"),
    "anomaly-subscription": NameKind("anomaly subscription", 1024, "any characters", r".+"),
    "glue-database": NameKind("Glue database", 255, "a-z, 0-9 and '_'", r"[a-z0-9_]+"),
    "athena-workgroup": NameKind("Athena workgroup", 128, _DOTTED_WORDS, _DOTTED),
    "aws-tag-key": NameKind(
        "AWS tag key",
        128,
        "letters, digits, spaces and _ . : / = + - @, not starting with aws:",
        r"[\w .:/=+@-]+",
        refused=r"\A[Aa][Ww][Ss]:",
    ),
    "aws-tag-value": NameKind(
        "AWS tag value", 256, "letters, digits, spaces and _ . : / = + - @", r"[\w .:/=+@-]*", shortest=0
    ),
    "kubernetes-label": NameKind("Kubernetes name", 63, _LABEL_WORDS, _LABEL),
    "kubernetes-namespace": NameKind("Kubernetes namespace", 63, _LABEL_WORDS, _LABEL, refused=r"\Akube-"),
    "kubernetes-service": NameKind(
        "Kubernetes service",
        63,
        "a-z, 0-9 and '-', a letter first and no '-' last",
        r"[a-z]([a-z0-9-]*[a-z0-9])?",
    ),
    "kubernetes-subdomain": NameKind("Kubernetes object", 253, f"labels of {_LABEL_WORDS}, joined by '.'", _SUBDOMAIN),
    "kubernetes-port": NameKind(
        "Kubernetes port name",
        15,
        f"{_LABEL_WORDS}, one letter at least and no '--'",
        r"(?=.*[a-z])" + _LABEL,
        refused="--",
    ),
    "kubernetes-label-value": NameKind(
        "Kubernetes label value",
        63,
        "letters, digits, '.', '-' and '_', with a letter or digit at both ends",
        r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?",
        shortest=0,
    ),
    "environment-variable": NameKind(
        "environment variable", 255, "letters, digits and '_', no digit first", r"[A-Za-z_][A-Za-z0-9_]*"
    ),
    "pulumi-stack": NameKind("Pulumi stack", 100, _DOTTED_WORDS, _DOTTED),
}


def fit(name: str, limit: int) -> str:
    """Return the name, or if it is too long a prefix of it with a hash of the whole name.

    A name of exactly the limit that ends like a shortened one is hashed, too. Otherwise it could collide with a longer
    name that was shortened.
    """
    if limit < SHORTEST_LIMIT:
        raise ValueError(f"a limit of {limit} is too short for a hash; the minimum is {SHORTEST_LIMIT}")
    if len(name) < limit or (len(name) == limit and not _SHORTENED.search(name)):
        return name
    digest = b32encode(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()).decode().lower()
    return f"{name[: limit - HASH_LENGTH - 1]}-{digest[:HASH_LENGTH]}"


_SHORTENED = re.compile(rf"-[a-z2-7]{{{HASH_LENGTH}}}\Z")


def named(kind: str, *parts: str) -> str:
    """Return the parts joined by '-' and shortened to the limit of the kind; raise `InvalidNameError` if invalid."""
    row = KINDS[kind]
    name = fit("-".join(part for part in parts if part), row.limit)
    row.check(name)
    return name
