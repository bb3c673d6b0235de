"""Patterns of ARNs: whether one takes in every thing of a kind, or of all kinds."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

# A pattern that fits both of these, which nobody has called anything, fits every name
_NAMES: Final = ("q7zq", "0w9x-3b")


# By itself, and not by its words: patterns are asked for by kind thousands of times
@dataclass(frozen=True, eq=False)
class Kind:
    """What actions are about: its word, the service in its ARN, and what stands there before and behind the name."""

    word: str
    service: str
    before: str
    behind: str = ""

    def whole(self, pattern: str) -> bool:
        """Whether a pattern takes in every one of the kind, in an account or anywhere."""
        return _whole(self, pattern)


ROLES: Final = Kind("role", "iam", "role/")
USERS: Final = Kind("user", "iam", "user/")
GROUPS: Final = Kind("group", "iam", "group/")
POLICIES: Final = Kind("policy", "iam", "policy/")
SECRETS: Final = Kind("secret", "secretsmanager", "secret:")
PARAMETERS: Final = Kind("parameter", "ssm", "parameter/")
KEYS: Final = Kind("key", "kms", "key/")
BUCKETS: Final = Kind("bucket", "s3", "")
FILES: Final = Kind("object", "s3", "q7zq/", "/q7zq")
INSTANCES: Final = Kind("instance", "ec2", "instance/")
FUNCTIONS: Final = Kind("function", "lambda", "function:")
CLUSTERS: Final = Kind("cluster", "eks", "cluster/")
ENTRIES: Final = Kind("access entry", "eks", "access-entry/q7zq/role/111122223333/", "/q7zq")
FILE_SYSTEMS: Final = Kind("file system", "elasticfilesystem", "file-system/")


def everything(pattern: str) -> bool:
    """Whether it is a star for the whole, or for all that an ARN tells apart."""
    parts = pattern.split(":", 5)
    return not pattern.strip("*") or (
        len(parts) == 6 and "*" in parts[5] and not parts[5].strip("*/:") and parts[0] in {"arn", "*"}
    )


@lru_cache(maxsize=4096)
def _whole(kind: Kind, pattern: str) -> bool:
    if everything(pattern):
        return pattern.count(":") < 5 or fnmatchcase(kind.service, pattern.split(":", 5)[2])
    parts = pattern.split(":", 5)
    if len(parts) < 6 or not fnmatchcase(kind.service, parts[2]):
        return False
    return all(fnmatchcase(f"{kind.before}{name}{kind.behind}", parts[5].replace("[", "[[]")) for name in _NAMES)
