"""Wait until the API server authorizes the caller, whose access entry may be seconds old.

Access entries are eventually consistent: for some seconds EKS answers 401, and 403 until the policy of the entry takes
effect. The Kubernetes provider contacts the API server once, when it is configured. After a refusal it reports the
cluster as unreachable for the whole update.
"""

import asyncio
import base64
import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

DEADLINE_SECONDS = 120.0
# The API server caches the review of each token, so a refused one is not sent again. A new one differs by its second.
INTERVAL_SECONDS = 2.0
# A cluster has several API servers behind its address. They get the same token, which each reviews for itself.
IN_A_ROW = 3
_PROGRAM_SECONDS = 60.0
_REQUEST_SECONDS = 20.0
_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
# What every deployer may do, and creates first.
_REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SelfSubjectAccessReview",
    "spec": {"resourceAttributes": {"verb": "create", "resource": "namespaces"}},
}


def after_authorization(
    kubeconfig: pulumi.Output[str], entries: Sequence[pulumi.Resource], parent: pulumi.Resource
) -> pulumi.Output[str]:
    """Return the kubeconfig once the API server authorizes the caller by the entries; at previews at once.

    The output does not depend on the entries: the replacement of an entry must not replace what is in the cluster.
    """

    async def wait(known: str) -> str:
        if pulumi.runtime.is_dry_run():
            return known
        for entry in entries:
            await entry.urn.future()
        if refusal := await asyncio.to_thread(wait_for_authorization, known):
            pulumi.log.warn(f"The API server still refuses the caller: {refusal}", parent)
        return known

    return kubeconfig.apply(wait)


def wait_for_authorization(
    kubeconfig: str, *, deadline_seconds: float = DEADLINE_SECONDS, interval_seconds: float = INTERVAL_SECONDS
) -> str:
    """Wait until the caller may create namespaces. Return the last refusal after a timeout, else an empty string.

    Only refusals are waited for. The provider reports every other failure better.
    """
    config = json.loads(kubeconfig)
    if not config.get("users"):
        return ""
    deadline, accepted, token = time.monotonic() + deadline_seconds, 0, ""
    while True:
        try:
            token = token if accepted else _token(config["users"][0]["user"]["exec"])
            refusal = _refusal(config["clusters"][0]["cluster"], token)
        except (OSError, subprocess.SubprocessError, ValueError, KeyError):
            return ""
        if refusal is None:
            return ""
        accepted = 0 if refusal else accepted + 1
        if accepted == IN_A_ROW:
            return ""
        if refusal:
            if time.monotonic() + interval_seconds > deadline:
                return refusal
            time.sleep(interval_seconds)


def _refusal(cluster: Mapping[str, Any], token: str) -> str | None:
    """Return why the API server refuses the caller, an empty string if it does not, and None for another failure."""
    request = urllib.request.Request(  # noqa: S310 - the address of the cluster
        f"{cluster['server']}{_PATH}",
        data=json.dumps(_REVIEW).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=_tls(cluster)))
    try:
        with opener.open(request, timeout=_REQUEST_SECONDS) as response:
            allowed = json.load(response)["status"]["allowed"]
    except urllib.error.HTTPError as error:
        return f"it answered {error.code}" if error.code in {401, 403} else None
    return "" if allowed else "no access policy of the caller has taken effect"


def _token(program: Mapping[str, Any]) -> str:
    """Return a new token of the exec plugin."""
    environment = {**os.environ, **{row["name"]: row["value"] for row in program.get("env") or ()}}
    done = subprocess.run(
        [program["command"], *program["args"]],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_PROGRAM_SECONDS,
        check=True,
    )
    return json.loads(done.stdout)["status"]["token"]


def _tls(cluster: Mapping[str, Any]) -> ssl.SSLContext:
    authority = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(cadata=base64.b64decode(authority).decode() if authority else None)
    # The authorities of clusters lack extensions that Python 3.13 requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
