"""The command `aws`, where none is installed: `aws eks get-token`, which kubeconfigs of EKS run, and nothing else.

A token is a call of STS GetCallerIdentity, signed by the caller and not sent: whoever receives it sends it, and learns
who signed it. botocore signs it as the AWS CLI does.
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
VALID: Final = timedelta(minutes=14)  # EKS takes it for 15
SIGNED_FOR: Final = 60  # seconds, as X-Amz-Expires says; EKS does not look at it
API: Final = "client.authentication.k8s.io/v1beta1"
USAGE: Final = "aws [--region R] [--profile P] [--output json] eks get-token --cluster-name N [--role-arn ARN]"
WRONG_USE: Final = 252  # the AWS CLI's own exit codes
FAILED: Final = 255


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(
            f"aws: {message}\nThis is the rehearsal's stand-in for the AWS CLI, which does only this:\n  {USAGE}\n"
            "Install the AWS CLI for everything else.\n"
        )
        raise SystemExit(WRONG_USE)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="aws", usage=USAGE)
    parser.add_argument("--version", action="store_true", help="say what this is")
    _common(parser, given=None)
    services = parser.add_subparsers(dest="service", metavar="eks", parser_class=_Parser)
    operations = services.add_parser("eks", usage=USAGE).add_subparsers(
        dest="operation", metavar="get-token", required=True, parser_class=_Parser
    )
    token = operations.add_parser("get-token", usage=USAGE)
    # Options may stand before and after the operation; absent there, they must not undo what stood before.
    _common(token, given=argparse.SUPPRESS)
    token.add_argument("--cluster-name", required=True, help="the cluster that the token is for")
    token.add_argument("--role-arn", help="whose token it is to be")
    return parser


def _common(parser: argparse.ArgumentParser, given: Any) -> None:
    parser.add_argument("--region", default=given, help="the region of the cluster")
    parser.add_argument("--profile", default=given, help="whose credentials to use")
    parser.add_argument("--output", choices=("json",), default=given, help="always json")


def signed(cluster: str, *, region: str | None = None, profile: str | None = None, role: str | None = None) -> str:
    """A token for a cluster, from the credentials that botocore finds; with `role`, from those of that role."""
    import botocore.session

    session = botocore.session.Session(profile=profile)
    client: Any = session.create_client("sts", region_name=region)
    if role:
        taken = client.assume_role(RoleArn=role, RoleSessionName="EKSGetTokenAuth")["Credentials"]
        client = session.create_client(
            "sts",
            region_name=region,
            aws_access_key_id=taken["AccessKeyId"],
            aws_secret_access_key=taken["SecretAccessKey"],
            aws_session_token=taken["SessionToken"],
        )

    def put_header(request: Any, **_: Any) -> None:
        request.headers[HEADER] = cluster

    client.meta.events.register("before-sign.sts.GetCallerIdentity", put_header)
    address = client.generate_presigned_url("get_caller_identity", ExpiresIn=SIGNED_FOR, HttpMethod="GET", Params={})
    return PREFIX + base64.urlsafe_b64encode(address.encode()).decode().rstrip("=")


def credential(token: str, now: datetime) -> dict[str, Any]:
    """What a kubeconfig's user gets."""
    until = (now + VALID).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "kind": "ExecCredential",
        "apiVersion": _wanted_api(),
        "spec": {},
        "status": {"expirationTimestamp": until, "token": token},
    }


def _wanted_api() -> str:
    """The version of the protocol that the caller speaks."""
    try:
        said = json.loads(os.environ.get("KUBERNETES_EXEC_INFO", "")).get("apiVersion")
    except (ValueError, AttributeError):
        return API
    return said if said in {API, API.replace("v1beta1", "v1")} else API


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.version:
        from importlib.metadata import version

        # The first word is for the official eks component, which takes no version older than this.
        sys.stdout.write(f"aws-cli/2.7.0 agentenv-rehearsal botocore/{version('botocore')}\n")
        return 0
    if given.service is None:
        parser.error("nothing to do")
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        token = signed(given.cluster_name, region=given.region, profile=given.profile, role=given.role_arn)
    except (BotoCoreError, ClientError) as error:
        sys.stderr.write(f"aws: {error}\n")
        return FAILED
    sys.stdout.write(json.dumps(credential(token, datetime.now(UTC)), indent=4) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
