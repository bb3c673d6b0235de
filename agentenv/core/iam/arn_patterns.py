"""ARN patterns of statements: whether one matches every resource of a kind, or of all kinds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from agentenv.core.iam.patterns import matches

# A pattern that matches both of these unlikely names matches every name
_NAMES: Final = ("q7zq", "0w9x-3b")


# Compared and hashed by identity, because patterns are looked up by kind thousands of times
@dataclass(frozen=True, eq=False)
class ResourceKind:
    """A kind of resource: its title, the service in its ARN, and the parts before and after the name there."""

    title: str
    service: str
    before: str
    after: str = ""

    def all_match(self, pattern: str) -> bool:
        """Return whether a pattern matches every resource of the kind, in an account or in all."""
        return _all_match(self, pattern)


ROLES: Final = ResourceKind("role", "iam", "role/")
USERS: Final = ResourceKind("user", "iam", "user/")
GROUPS: Final = ResourceKind("group", "iam", "group/")
POLICIES: Final = ResourceKind("policy", "iam", "policy/")
SECRETS: Final = ResourceKind("secret", "secretsmanager", "secret:")
PARAMETERS: Final = ResourceKind("parameter", "ssm", "parameter/")
KEYS: Final = ResourceKind("key", "kms", "key/")
BUCKETS: Final = ResourceKind("bucket", "s3", "")
OBJECTS: Final = ResourceKind("object", "s3", "q7zq/", "/q7zq")
INSTANCES: Final = ResourceKind("instance", "ec2", "instance/")
FUNCTIONS: Final = ResourceKind("function", "lambda", "function:")
CLUSTERS: Final = ResourceKind("cluster", "eks", "cluster/")
ACCESS_ENTRIES: Final = ResourceKind("access entry", "eks", "access-entry/q7zq/role/111122223333/", "/q7zq")
FILE_SYSTEMS: Final = ResourceKind("file system", "elasticfilesystem", "file-system/")


def matches_everything(pattern: str) -> bool:
    """Return whether a pattern is a wildcard, or an ARN whose resource is one."""
    parts = pattern.split(":", 5)
    return not pattern.strip("*") or (
        len(parts) == 6 and "*" in parts[5] and not parts[5].strip("*/:") and parts[0] in {"arn", "*"}
    )


@lru_cache(maxsize=4096)
def _all_match(kind: ResourceKind, pattern: str) -> bool:
    if matches_everything(pattern):
        return pattern.count(":") < 5 or matches(pattern.split(":", 5)[2], kind.service)
    parts = pattern.split(":", 5)
    if len(parts) < 6 or not matches(parts[2], kind.service):
        return False
    return all(matches(parts[5], f"{kind.before}{name}{kind.after}") for name in _NAMES)
