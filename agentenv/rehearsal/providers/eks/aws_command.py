"""The command `aws` where the AWS CLI is not installed: only `aws eks get-token`, which EKS kubeconfigs run.

A token is a presigned STS GetCallerIdentity request. The receiver sends it and learns the identity of the signer.
botocore signs it as the AWS CLI does.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

PREFIX: Final = "k8s-aws-v1."
HEADER: Final = "x-k8s-aws-id"
VALIDITY: Final = timedelta(minutes=14)  # EKS accepts it for 15
EXPIRES: Final = 60  # seconds, in X-Amz-Expires, which EKS ignores
API: Final = "client.authentication.k8s.io/v1beta1"
USAGE: Final = "aws [--region R] [--profile P] [--output json] eks get-token --cluster-name N [--role-arn ARN]"
USAGE_ERROR: Final = 252  # the AWS CLI's own exit codes
FAILURE: Final = 255


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(
            f"aws: {message}\nThis is the rehearsal's stand-in for the AWS CLI, which supports only:\n  {USAGE}\n"
            "Install the AWS CLI for everything else.\n"
        )
        raise SystemExit(USAGE_ERROR)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="aws", usage=USAGE)
    parser.add_argument("--version", action="store_true", help="print the version")
    _add_common_options(parser, default=None)
    services = parser.add_subparsers(dest="service", metavar="eks", parser_class=_Parser)
    operations = services.add_parser("eks", usage=USAGE).add_subparsers(
        dest="operation", metavar="get-token", required=True, parser_class=_Parser
    )
    token = operations.add_parser("get-token", usage=USAGE)
    # Options are valid before and after the operation. Absent after it, they must not reset those before it.
    _add_common_options(token, default=argparse.SUPPRESS)
    token.add_argument("--cluster-name", required=True, help="the cluster that the token is for")
    token.add_argument("--role-arn", help="the role to assume")
    return parser


def _add_common_options(parser: argparse.ArgumentParser, default: Any) -> None:
    parser.add_argument("--region", default=default, help="the region of the cluster")
    parser.add_argument("--profile", default=default, help="the profile to read credentials from")
    parser.add_argument("--output", choices=("json",), default=default, help="always json")


def create_token(
    cluster: str, *, region: str | None = None, profile: str | None = None, role: str | None = None
) -> str:
    """Return a token for a cluster, signed with botocore's credentials, or with those of `role`."""
    import botocore.session

    session = botocore.session.Session(profile=profile)
    client: Any = session.create_client("sts", region_name=region)
    if role:
        credentials = client.assume_role(RoleArn=role, RoleSessionName="EKSGetTokenAuth")["Credentials"]
        client = session.create_client(
            "sts",
            region_name=region,
            aws_access_key_id=credentials["AccessKeyId"],
            aws_secret_access_key=credentials["SecretAccessKey"],
            aws_session_token=credentials["SessionToken"],
        )

    def put_header(request: Any, **_: Any) -> None:
        request.headers[HEADER] = cluster

    client.meta.events.register("before-sign.sts.GetCallerIdentity", put_header)
    url = client.generate_presigned_url("get_caller_identity", ExpiresIn=EXPIRES, HttpMethod="GET", Params={})
    return PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def credential(token: str, now: datetime) -> dict[str, Any]:
    """Return the ExecCredential with the token."""
    until = (now + VALIDITY).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "kind": "ExecCredential",
        "apiVersion": _api_version(),
        "spec": {},
        "status": {"expirationTimestamp": until, "token": token},
    }


def _api_version() -> str:
    """Return the API version that the caller requests, if it is supported."""
    try:
        version = json.loads(os.environ.get("KUBERNETES_EXEC_INFO", "")).get("apiVersion")
    except (ValueError, AttributeError):
        return API
    return version if version in {API, API.replace("v1beta1", "v1")} else API


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.version:
        from importlib.metadata import version

        # The official eks component checks the first word for a minimum version.
        sys.stdout.write(f"aws-cli/2.7.0 agentenv-rehearsal botocore/{version('botocore')}\n")
        return 0
    if options.service is None:
        parser.error("nothing to do")
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        token = create_token(
            options.cluster_name, region=options.region, profile=options.profile, role=options.role_arn
        )
    except (BotoCoreError, ClientError) as error:
        sys.stderr.write(f"aws: {error}\n")
        return FAILURE
    sys.stdout.write(json.dumps(credential(token, datetime.now(UTC)), indent=4) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
