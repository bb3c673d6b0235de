"""The credentials of a rehearsal: the first principal that a stack names as a deployer runs it.

Every principal that a stack names is created in the simulated account, and the deployer gets access keys. This
happens before the census, so that a destroy is not expected to delete them.
"""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agentenv.core.iam.documents import policy_document

if TYPE_CHECKING:
    import boto3

_PRINCIPAL = re.compile(r"arn:[a-z-]+:iam::(?P<account>\d{12}):(?P<kind>role|user)(?P<path>/(?:.*/)?)(?P<name>[^/]+)")
_SESSION = "rehearsal"
_SESSION_LOCK = threading.Lock()  # a session creates one client at a time


def create_principals(deployer: str, others: Iterable[str], cloud: str, region: str) -> dict[str, str]:
    """Create the principals and return the deployer's credentials as environment variables."""
    account = deployer.split(":")[4]
    # The simulated STS opens a session of any role for anybody, so an empty account can be entered
    endpoint = {"AWS_ENDPOINT_URL": cloud, "AWS_REGION": region}
    anonymous = {**endpoint, "AWS_ACCESS_KEY_ID": _SESSION, "AWS_SECRET_ACCESS_KEY": _SESSION}
    bootstrap = {**endpoint, **_session(client("sts", anonymous), f"arn:aws:iam::{account}:role/{_SESSION}")}
    iam = client("iam", bootstrap)
    for principal in sorted({deployer, *others}):
        match = _PRINCIPAL.fullmatch(principal)
        if match is None or match["account"] != account:
            continue
        if match["kind"] == "user":
            iam.create_user(UserName=match["name"], Path=match["path"])
            continue
        trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": f"arn:aws:iam::{account}:root"}}
        document = json.dumps(policy_document(trust))
        iam.create_role(RoleName=match["name"], Path=match["path"], AssumeRolePolicyDocument=document)
    if ":user/" not in deployer:
        return _session(client("sts", bootstrap), deployer)
    access_key = iam.create_access_key(UserName=deployer.rpartition("/")[2])["AccessKey"]
    return {"AWS_ACCESS_KEY_ID": access_key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": access_key["SecretAccessKey"]}


def _session(sts: Any, role: str) -> dict[str, str]:
    session = sts.assume_role(RoleArn=role, RoleSessionName=_SESSION)["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
        "AWS_SESSION_TOKEN": session["SessionToken"],
    }


def client(service: str, environment: Mapping[str, str]) -> Any:
    """Return a client for the simulated cloud, independent of local profiles, configuration files and proxies."""
    from botocore.config import Config

    with _SESSION_LOCK:
        return _boto_session().client(
            service,
            region_name=environment["AWS_REGION"],
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            config=Config(proxies={}),
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
            aws_session_token=environment.get("AWS_SESSION_TOKEN"),
        )


@functools.cache
def _boto_session() -> boto3.Session:
    """Return the session of all clients: each session reads botocore's models again."""
    import boto3
    import botocore.session

    no_files = dict.fromkeys(("profile", "config_file", "credentials_file"), (None, None, None, None))
    return boto3.Session(botocore_session=botocore.session.Session(session_vars=no_files))
