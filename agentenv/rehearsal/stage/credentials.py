"""Whose keys a rehearsal has: a stack that names who deploys to it is rehearsed by the first of those.

Whoever a stack names is made in their simulated account, and the one who deploys is given keys. That is before anything
is counted, so none of it is something that a destroy could leave behind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_PRINCIPAL = re.compile(r"arn:[a-z-]+:iam::(?P<account>\d{12}):(?P<kind>role|user)(?P<path>/(?:.*/)?)(?P<name>[^/]+)")
_SESSION = "rehearsal"


def keys_of(deployer: str, others: Iterable[str], cloud: str, region: str) -> dict[str, str]:
    """The variables with keys of a role or user; it exists from then on, and the others do too."""
    account = deployer.split(":")[4]
    # STS here gives a session of any role to anybody, which opens an account in which there is nobody yet
    place = {"AWS_ENDPOINT_URL": cloud, "AWS_REGION": region}
    anybody = {**place, "AWS_ACCESS_KEY_ID": _SESSION, "AWS_SECRET_ACCESS_KEY": _SESSION}
    opener = {**place, **_session(client("sts", anybody), f"arn:aws:iam::{account}:role/{_SESSION}")}
    iam = client("iam", opener)
    for principal in sorted({deployer, *others}):
        found = _PRINCIPAL.fullmatch(principal)
        if found is None or found["account"] != account:
            continue
        if found["kind"] == "user":
            iam.create_user(UserName=found["name"], Path=found["path"])
            continue
        trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": f"arn:aws:iam::{account}:root"}}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        iam.create_role(RoleName=found["name"], Path=found["path"], AssumeRolePolicyDocument=document)
    if ":user/" not in deployer:
        return _session(client("sts", opener), deployer)
    made = iam.create_access_key(UserName=deployer.rpartition("/")[2])["AccessKey"]
    return {"AWS_ACCESS_KEY_ID": made["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": made["SecretAccessKey"]}


def _session(sts: Any, role: str) -> dict[str, str]:
    made = sts.assume_role(RoleArn=role, RoleSessionName=_SESSION)["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": made["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": made["SecretAccessKey"],
        "AWS_SESSION_TOKEN": made["SessionToken"],
    }


def client(service: str, around: Mapping[str, str]) -> Any:
    """A client for the simulated cloud, deaf to the profiles, files and proxies of whoever runs the rehearsal."""
    import boto3
    import botocore.session
    from botocore.config import Config

    nothing = dict.fromkeys(("profile", "config_file", "credentials_file"), (None, None, None, None))
    return boto3.Session(botocore_session=botocore.session.Session(session_vars=nothing)).client(
        service,
        region_name=around["AWS_REGION"],
        endpoint_url=around["AWS_ENDPOINT_URL"],
        config=Config(proxies={}),
        aws_access_key_id=around["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=around["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=around.get("AWS_SESSION_TOKEN"),
    )
