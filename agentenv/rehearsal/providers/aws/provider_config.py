"""The provider's configuration: the official provider's keys, from the program and the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agentenv.rehearsal.providers.aws import value_kinds
from agentenv.rehearsal.providers.aws.api_calls import Access
from agentenv.rehearsal.providers.common.property_values import UNKNOWN

SUPPORTED: Final = frozenset(
    {"accessKey", "allowedAccountIds", "assumeRoles", "defaultTags", "endpoints", "forbiddenAccountIds", "ignoreTags"}
    | {"maxRetries", "profile", "region", "secretKey", "token"}
)
# Accepted, and without effect on a simulated endpoint.
IGNORED: Final = frozenset(
    {"ec2MetadataServiceEndpoint", "ec2MetadataServiceEndpointMode", "insecure", "retryMode", "stsRegion"}
    | {"s3UsEast1RegionalEndpoint", "s3UsePathStyle", "sharedConfigFiles", "sharedCredentialsFiles"}
    | {"skipCredentialsValidation", "skipMetadataApiCheck", "skipRegionValidation", "skipRequestingAccountId"}
    | {"tagPolicyCompliance", "tokenBucketRateLimiterCapacity", "useDualstackEndpoint", "useFipsEndpoint", "userAgents"}
    | {"pluginDownloadURL", "version"}
)
UNSUPPORTED: Final = frozenset({"assumeRoleWithWebIdentity", "customCaBundle", "httpProxy", "httpsProxy", "noProxy"})
SECRET: Final = frozenset({"accessKey", "secretKey", "token"})
NO_ENDPOINT: Final = (
    "no endpoint is set, and the stand-in provider never calls AWS itself: set AWS_ENDPOINT_URL (the rehearsal "
    "does), or install the official aws plugin"
)
NO_REGION: Final = "no region is set: set aws:region in the stack's configuration, or AWS_REGION"


@dataclass(frozen=True)
class Configuration:
    access: Access
    tags: Mapping[str, str] = field(default_factory=dict)


def decoded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with their JSON text decoded: the engine sends all but texts as JSON."""
    out: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, str) and key not in SECRET and value[:1] in {"{", "[", "t", "f"}:
            try:
                out[key] = json.loads(value)
            except ValueError:
                out[key] = value
        else:
            out[key] = value
    return out


def check(values: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> list[tuple[str, str]]:
    """Return the problems of a configuration."""
    problems: list[tuple[str, str]] = []
    for key, value in values.items():
        if key.startswith("__") or key in IGNORED or value in (None, ""):
            continue
        if key in UNSUPPORTED:
            problems.append((key, f"the stand-in provider has no {key}; the official aws plugin does"))
        elif key not in SUPPORTED:
            problems.append(
                (key, f"the aws provider has no setting {key!r}{value_kinds.nearest(key, SUPPORTED | IGNORED)}")
            )
    settings = decoded(values)
    if not settings.get("region") and not _region(environment):
        problems.append(("region", NO_REGION))
    if not settings.get("endpoints") and not _endpoint(environment):
        problems.append(("endpoints", NO_ENDPOINT))
    tags = settings.get("defaultTags")
    if tags not in (None, UNKNOWN) and (not isinstance(tags, dict) or set(tags) - {"tags"}):
        problems.append(("defaultTags", "must be an object with tags, a map of text"))
    return problems


def _region(environment: Mapping[str, str]) -> str | None:
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")


def _endpoint(environment: Mapping[str, str]) -> str | None:
    return environment.get("AWS_ENDPOINT_URL")


def configuration(values: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Configuration:
    """Return the configuration from values that passed `check`."""
    settings = {k: v for k, v in decoded(values).items() if v is not UNKNOWN and v not in (None, "")}
    endpoints: dict[str, str] = {}
    for part in _as_list(settings.get("endpoints")):
        endpoints.update({service: url for service, url in part.items() if url})
    ignore = settings.get("ignoreTags") or {}
    default_endpoint = _endpoint(environment) or next(iter(endpoints.values()), "")
    access = Access(
        region=settings.get("region") or _region(environment) or "",
        endpoint=default_endpoint,
        endpoints=endpoints,
        access_key=settings.get("accessKey"),
        secret_key=settings.get("secretKey"),
        token=settings.get("token"),
        profile=settings.get("profile"),
        attempts=max(1, min(int(settings.get("maxRetries", 3)), 10)),
        roles=tuple(_as_list(settings.get("assumeRoles"))),
        allowed=frozenset(settings.get("allowedAccountIds") or ()),
        forbidden=frozenset(settings.get("forbiddenAccountIds") or ()),
        ignored_tags=frozenset(ignore.get("keys") or ()),
        ignored_prefixes=tuple(ignore.get("keyPrefixes") or ()),
    )
    return Configuration(access, dict((settings.get("defaultTags") or {}).get("tags") or {}))


def _as_list(value: Any) -> list[dict[str, Any]]:
    return [dict(item) for item in ([value] if isinstance(value, dict) else value or [])]
