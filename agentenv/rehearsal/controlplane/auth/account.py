"""The simulated AWS account as the control plane uses it: callers, access entries, add-ons, Fargate profiles."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree as ET

from agentenv.rehearsal.controlplane.auth import access_entries
from agentenv.rehearsal.controlplane.auth.eks_token import HEADER, PresignedToken, TokenRefused
from agentenv.rehearsal.controlplane.nodes import fargate
from agentenv.rehearsal.controlplane.ports import DIRECTLY

_TIMEOUT_SECONDS = 10
_CACHE_SECONDS = 5.0


@dataclass
class Account:
    """One account at one endpoint; an empty `cluster` stands for whichever cluster exists."""

    endpoint: str
    region: str
    access_key: str
    secret_key: str = field(repr=False)
    cluster: str = ""
    _described: dict[tuple[str, str], tuple[float, fargate.Profile]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str], cluster: str = "") -> Account | None:
        """Return the account that a run's environment points to; None if it has no simulated one."""
        endpoint = environment.get("AWS_ENDPOINT_URL")
        if not endpoint:
            return None
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
        key, secret = environment.get("AWS_ACCESS_KEY_ID", ""), environment.get("AWS_SECRET_ACCESS_KEY", "")
        return cls(endpoint.rstrip("/"), region, key, secret, cluster)

    @property
    def host(self) -> str:
        """Return the endpoint's host, which also serves STS."""
        return urlsplit(self.endpoint).netloc

    @cached_property
    def _eks(self) -> Any:
        return self.service("eks")

    def service(self, name: str, keys: Mapping[str, Any] | None = None) -> Any:
        """Return an SDK client of a service, with the run's credentials or the given ones."""
        import boto3
        from botocore.config import Config

        run_credentials = {"AccessKeyId": self.access_key, "SecretAccessKey": self.secret_key, "SessionToken": None}
        credentials = run_credentials if keys is None else keys
        # Loopback is never reached through a proxy
        settings = Config(retries={"total_max_attempts": 2}, read_timeout=_TIMEOUT_SECONDS, proxies={})
        with self._lock:  # the SDK's default session, which creates clients, is not thread-safe
            return boto3.client(
                name,
                endpoint_url=self.endpoint,
                region_name=self.region,
                aws_access_key_id=credentials["AccessKeyId"],
                aws_secret_access_key=credentials["SecretAccessKey"],
                aws_session_token=credentials["SessionToken"],
                config=settings,
            )

    def publish(self, issuer: str, keys: Sequence[Mapping[str, Any]]) -> None:
        """Publish an issuer's keys to STS, which EKS has at a public address."""
        self._post("issuers", {"issuer": issuer, "keys": keys})

    def refused_mount(self, file_system: str, access_point: str | None, *, tls: bool, access_key: str | None) -> str:
        """Return why EFS refuses a mount; empty if it allows it. Without a key the client is anonymous."""
        client = {"account_key": self.access_key, "access_key": access_key, "region": self.region, "tls": tls}
        return self._post("mounts", {**client, "file_system": file_system, "access_point": access_point})["reason"]

    def unreachable(self, cluster: str) -> str:
        """Return why the deployer does not reach the API server of a cluster; empty if it does."""
        question = {"account_key": self.access_key, "region": self.region, "cluster": cluster}
        return self._post("reachability", question)["reason"]

    def _post(self, page: str, body: object) -> Any:
        url = f"{self.endpoint}/_cloud/{page}"
        request = urllib.request.Request(url, data=json.dumps(body).encode())  # noqa: S310 - loopback
        with DIRECTLY.open(request, timeout=_TIMEOUT_SECONDS) as response:
            return json.load(response)

    def warm(self) -> None:
        """Load the SDK, which takes most of a second, before the first request."""
        _ = self._eks

    def clusters(self) -> list[str]:
        """Return the clusters that this API server may represent."""
        return [self.cluster] if self.cluster else self._eks.list_clusters()["clusters"]

    def cluster_of(self, presented: PresignedToken) -> str:
        """Return the cluster that a token was created for; TokenRefused if it is none of these.

        Without the caller's secret key the signature cannot be recomputed, and the only cluster is assumed.
        """
        names = self.clusters()
        if not names:
            raise TokenRefused("the simulated account has no cluster")
        if presented.access_key != self.access_key:
            return names[0]
        for name in names:
            if presented.signed_for(name, self.secret_key):
                return name
        raise TokenRefused(f"it was signed for a cluster other than {' or '.join(names)}, or with another secret key")

    def caller(self, presented: PresignedToken, cluster: str) -> str:
        """Return the ARN of the caller who presigned the token, from the simulated STS.

        The call goes to the simulated endpoint, whatever the token's address is: simulated services read the
        Authorization header.
        """
        request = urllib.request.Request(  # noqa: S310 - our own loopback server
            f"{self.endpoint}/",
            data=urlencode({"Action": "GetCallerIdentity", "Version": "2011-06-15"}).encode(),
            headers={
                HEADER: cluster,
                "X-Amz-Date": presented.stamp,
                "Authorization": presented.authorization,
                "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
            },
        )
        try:
            with DIRECTLY.open(request, timeout=_TIMEOUT_SECONDS) as response:
                document = ET.fromstring(response.read())  # noqa: S314 - from our own endpoint
        except urllib.error.HTTPError as error:
            raise TokenRefused(f"STS refused it with {error.code}") from error
        for element in document.iter():
            if element.tag.rpartition("}")[2] == "Arn" and element.text:
                return element.text
        raise TokenRefused("STS named no caller")

    def entry(
        self, cluster: str, caller: access_entries.Principal
    ) -> tuple[dict[str, Any], list[access_entries.Association]] | None:
        """Return the caller's access entry with its policies, or None; those of the last seconds do not count yet."""
        now = datetime.now(UTC)
        for arn in _pages(self._eks, "list_access_entries", "accessEntries", clusterName=cluster):
            entry_principal = access_entries.principal(arn)
            if entry_principal is not None and entry_principal.same(caller):
                named = {"clusterName": cluster, "principalArn": arn}
                entry = self._eks.describe_access_entry(**named)["accessEntry"]
                if not access_entries.entry_in_effect(entry, now):
                    return None
                rows = _pages(self._eks, "list_associated_access_policies", "associatedAccessPolicies", **named)
                return entry, access_entries.policies_in_effect(rows, now)
        return None

    def addon(self, name: str) -> dict[str, Any] | None:
        """Return an add-on of the cluster while it is active."""
        for cluster in self.clusters():
            try:
                addon_record = self._eks.describe_addon(clusterName=cluster, addonName=name)["addon"]
            except self._eks.exceptions.ResourceNotFoundException:
                continue
            if addon_record["status"] == "ACTIVE":
                return addon_record
        return None

    def associated_cluster(self, namespace: str, service_account: str) -> str | None:
        """Return the cluster in which a Pod Identity association gives a service account a role, or None."""
        for cluster in self.clusters():
            named = {"clusterName": cluster, "namespace": namespace, "serviceAccount": service_account}
            if self._eks.list_pod_identity_associations(**named)["associations"]:
                return cluster
        return None

    def profiles(self) -> list[fargate.Profile]:
        """Return every Fargate profile that the webhook knows.

        The names are listed each time: a pod that is created right after its profile must match it. A profile cannot
        be changed, so its description is cached for a while.
        """
        active: list[fargate.Profile] = []
        now = time.monotonic()
        for cluster in self.clusters():
            for name in _pages(self._eks, "list_fargate_profiles", "fargateProfileNames", clusterName=cluster):
                cached = self._described.get((cluster, name))
                if cached is None or now - cached[0] > _CACHE_SECONDS:
                    response = self._eks.describe_fargate_profile(clusterName=cluster, fargateProfileName=name)
                    cached = self._described[cluster, name] = (now, fargate.parse_profile(response["fargateProfile"]))
                if cached[1].marks_pods(time.time()):
                    active.append(cached[1])
        return active


def _pages(client: Any, operation: str, key: str, **parameters: Any) -> list[Any]:
    return [row for page in client.get_paginator(operation).paginate(**parameters) for row in page[key]]
