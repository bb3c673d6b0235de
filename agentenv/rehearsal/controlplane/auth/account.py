"""The simulated AWS account, as the control plane asks it: who calls, who may enter, what runs there for EKS."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree as ET

from agentenv.rehearsal.controlplane.auth import access_entries as access
from agentenv.rehearsal.controlplane.auth.eks_token import HEADER, Presented, TokenRefused
from agentenv.rehearsal.controlplane.nodes import fargate
from agentenv.rehearsal.controlplane.ports import DIRECTLY

_PATIENCE_SECONDS = 10
_MEMORY_SECONDS = 5.0


@dataclass
class Account:
    """One account behind one endpoint; `cluster` is empty for whichever cluster there is."""

    endpoint: str
    region: str
    access_key: str
    secret_key: str = field(repr=False)
    cluster: str = ""
    _described: dict[tuple[str, str], tuple[float, fargate.Profile]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str], cluster: str = "") -> Account | None:
        """The account that a run's environment leads to; None where it leads to no simulated one."""
        endpoint = environment.get("AWS_ENDPOINT_URL")
        if not endpoint:
            return None
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
        key, secret = environment.get("AWS_ACCESS_KEY_ID", ""), environment.get("AWS_SECRET_ACCESS_KEY", "")
        return cls(endpoint.rstrip("/"), region, key, secret, cluster)

    @property
    def host(self) -> str:
        """The endpoint's host, which stands for STS too."""
        return urlsplit(self.endpoint).netloc

    @cached_property
    def _eks(self) -> Any:
        return self.service("eks")

    def service(self, name: str, keys: Mapping[str, Any] | None = None) -> Any:
        """An SDK's client of a service, with the keys of the run, or with those of somebody else."""
        import boto3
        from botocore.config import Config

        own = {"AccessKeyId": self.access_key, "SecretAccessKey": self.secret_key, "SessionToken": None}
        said = own if keys is None else keys
        # Loopback is never reached through a proxy
        settings = Config(retries={"total_max_attempts": 2}, read_timeout=_PATIENCE_SECONDS, proxies={})
        with self._lock:  # the SDK's default session, which makes them, is for one thread at a time
            return boto3.client(
                name,
                endpoint_url=self.endpoint,
                region_name=self.region,
                aws_access_key_id=said["AccessKeyId"],
                aws_secret_access_key=said["SecretAccessKey"],
                aws_session_token=said["SessionToken"],
                config=settings,
            )

    def publish(self, issuer: str, keys: Sequence[Mapping[str, Any]]) -> None:
        """Let STS find the keys of an issuer of tokens, which EKS has at a public address."""
        said = json.dumps({"issuer": issuer, "keys": keys}).encode()
        request = urllib.request.Request(f"{self.endpoint}/_cloud/issuers", data=said)  # noqa: S310 - loopback
        with DIRECTLY.open(request, timeout=_PATIENCE_SECONDS):
            pass

    def warm(self) -> None:
        """Load the SDK, which takes most of a second, before anybody waits for it."""
        _ = self._eks

    def clusters(self) -> list[str]:
        """The clusters that this API server may stand for."""
        return [self.cluster] if self.cluster else self._eks.list_clusters()["clusters"]

    def cluster_of(self, presented: Presented) -> str:
        """The cluster that a token was made for; TokenRefused if it is none of ours.

        Where the secret key is not known to us, the signature cannot be made again, and the only cluster is assumed.
        """
        names = self.clusters()
        if not names:
            raise TokenRefused("the simulated account has no cluster")
        if presented.access_key != self.access_key:
            return names[0]
        for name in names:
            if presented.signed_for(name, self.secret_key):
                return name
        raise TokenRefused(f"it was signed for another cluster than {' or '.join(names)}, or with another secret key")

    def caller(self, presented: Presented, cluster: str) -> str:
        """The ARN of whoever presigned the token, as the simulated STS knows them.

        Sent as a call of its own to our own endpoint, whatever the token's address says: simulated services go by the
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
            with DIRECTLY.open(request, timeout=_PATIENCE_SECONDS) as answer:
                said = ET.fromstring(answer.read())  # noqa: S314 - from our own endpoint
        except urllib.error.HTTPError as error:
            raise TokenRefused(f"STS refused it with {error.code}") from error
        for element in said.iter():
            if element.tag.rpartition("}")[2] == "Arn" and element.text:
                return element.text
        raise TokenRefused("STS named no caller")

    def entry(self, cluster: str, who: access.Principal) -> tuple[dict[str, Any], list[access.Association]] | None:
        """The caller's access entry with its policies, or None."""
        for arn in _pages(self._eks, "list_access_entries", "accessEntries", clusterName=cluster):
            found = access.principal(arn)
            if found is not None and found.same(who):
                named = {"clusterName": cluster, "principalArn": arn}
                entry = self._eks.describe_access_entry(**named)["accessEntry"]
                rows = _pages(self._eks, "list_associated_access_policies", "associatedAccessPolicies", **named)
                return entry, [access.association(row) for row in rows]
        return None

    def addon(self, name: str) -> dict[str, Any] | None:
        """An add-on of the cluster, as long as it is active."""
        for cluster in self.clusters():
            try:
                found = self._eks.describe_addon(clusterName=cluster, addonName=name)["addon"]
            except self._eks.exceptions.ResourceNotFoundException:
                continue
            if found["status"] == "ACTIVE":
                return found
        return None

    def associated(self, namespace: str, service_account: str) -> str | None:
        """The cluster in which a Pod Identity association gives a service account a role, if one does."""
        for cluster in self.clusters():
            named = {"clusterName": cluster, "namespace": namespace, "serviceAccount": service_account}
            if self._eks.list_pod_identity_associations(**named)["associations"]:
                return cluster
        return None

    def profiles(self) -> list[fargate.Profile]:
        """Every Fargate profile there is at this moment.

        The names are asked for each time: a pod that comes right behind its profile must find it. A profile cannot be
        changed, so what was described stays true for a while.
        """
        found: list[fargate.Profile] = []
        now = time.monotonic()
        for cluster in self.clusters():
            for name in _pages(self._eks, "list_fargate_profiles", "fargateProfileNames", clusterName=cluster):
                known = self._described.get((cluster, name))
                if known is None or now - known[0] > _MEMORY_SECONDS:
                    told = self._eks.describe_fargate_profile(clusterName=cluster, fargateProfileName=name)
                    known = self._described[cluster, name] = (now, fargate.profile(told["fargateProfile"]))
                if known[1].active:
                    found.append(known[1])
        return found


def _pages(client: Any, operation: str, key: str, **asked: Any) -> list[Any]:
    return [row for page in client.get_paginator(operation).paginate(**asked) for row in page[key]]
