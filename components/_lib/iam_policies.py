"""IAM policy documents, as plain data: what each says can be read, tested and compared without an engine.

Each is made from where it holds and from what it names. Lists are sorted, so that the same arguments give the same
text and a second update has nothing to change.
"""

import json
from collections.abc import Sequence
from typing import Any

import pulumi

from agentenv.components._lib.aws_context import AwsContext

Document = dict[str, Any]

# What the account's own IAM policies may be given over a key: to look after it, never to read what it encrypts.
KEY_ADMINISTRATION = (
    "kms:CancelKeyDeletion",
    "kms:Describe*",
    "kms:DisableKey*",
    "kms:Enable*",
    "kms:Get*",
    "kms:List*",
    "kms:PutKeyPolicy",
    "kms:RevokeGrant",
    "kms:RotateKeyOnDemand",
    "kms:ScheduleKeyDeletion",
    "kms:*Tag*",
    "kms:Update*",
    "kms:*Alias",
)
KEY_USE = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")


def document(*statements: Document) -> Document:
    """A policy of these statements."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def to_json(policy: Document) -> str:
    """A policy as AWS takes it; without the spaces that count towards its length."""
    return json.dumps(policy, separators=(",", ":"), sort_keys=True)


def policy_json(policy: pulumi.Output[Document]) -> pulumi.Output[str]:
    """The same of a policy that is not known yet."""
    return policy.apply(to_json)


def service_trust_policy(aws: AwsContext, service: str, source: str) -> Document:
    """Who may take on a role: a service, for this account's own resources only, not for those of another customer."""
    return document(
        {
            "Sid": "ForOurOwn",
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": service},
            "Condition": {
                "StringEquals": {"aws:SourceAccount": aws.account},
                "ArnLike": {"aws:SourceArn": source},
            },
        }
    )


def log_writer_policy(log_group: str) -> Document:
    """What the flow logs service does with a log group that exists: it may not make others, nor read any."""
    return document(
        {
            "Sid": "WriteFlows",
            "Effect": "Allow",
            "Action": [
                "logs:CreateLogStream",
                "logs:DescribeLogGroups",
                "logs:DescribeLogStreams",
                "logs:PutLogEvents",
            ],
            "Resource": [log_group, f"{log_group}:*"],
        }
    )


def logs_key_policy(aws: AwsContext, *log_groups: str) -> Document:
    """A key that CloudWatch Logs uses for log groups whose names begin in one of some ways, and whoever it lets at
    them.
    """
    logs = f"logs.{aws.region}.{aws.dns_suffix}"
    arns = [aws.arn("logs", f"log-group:{names}") for names in log_groups]
    return document(
        _administration(aws),
        {
            "Sid": "EncryptLogs",
            "Effect": "Allow",
            "Principal": {"Service": logs},
            "Action": [*KEY_USE],
            "Resource": "*",
            "Condition": {
                "ArnLike": {"kms:EncryptionContext:aws:logs:arn": arns[0] if len(arns) == 1 else sorted(arns)}
            },
        },
        _used_through(aws, logs, "ThroughLogs", KEY_USE),
    )


def file_system_key_policy(aws: AwsContext) -> Document:
    """A key that is used through EFS only, for whoever EFS lets at the file system; nobody decrypts with it directly.

    Backups read through EFS too, and then encrypt with the vault's key.
    """
    return document(
        _administration(aws),
        _used_through(
            aws,
            f"elasticfilesystem.{aws.region}.{aws.dns_suffix}",
            "ThroughFileSystems",
            (*KEY_USE, "kms:CreateGrant"),
        ),
    )


def volume_key_policy(aws: AwsContext) -> Document:
    """A key for the volumes of nodes, used through EC2 only, for whoever may launch them."""
    return document(
        _administration(aws),
        _used_through(aws, f"ec2.{aws.region}.{aws.dns_suffix}", "ThroughVolumes", (*KEY_USE, "kms:CreateGrant")),
    )


def secrets_key_policy(aws: AwsContext) -> Document:
    """A key for the cluster's secrets. EKS is given a grant by whoever makes the cluster, and works by that alone."""
    return document(
        _administration(aws),
        {
            "Sid": "GrantToCluster",
            "Effect": "Allow",
            "Principal": {"AWS": aws.root},
            "Action": ["kms:CreateGrant", "kms:DescribeKey"],
            "Resource": "*",
        },
    )


def _used_through(aws: AwsContext, service: str, sid: str, actions: Sequence[str]) -> Document:
    return {
        "Sid": sid,
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": sorted(actions),
        "Resource": "*",
        "Condition": {"StringEquals": {"kms:CallerAccount": aws.account, "kms:ViaService": service}},
    }


def _administration(aws: AwsContext) -> Document:
    return {
        "Sid": "Administer",
        "Effect": "Allow",
        "Principal": {"AWS": aws.root},
        "Action": sorted(KEY_ADMINISTRATION),
        "Resource": "*",
    }


MOUNT, WRITE, ROOT = (
    "elasticfilesystem:ClientMount",
    "elasticfilesystem:ClientWrite",
    "elasticfilesystem:ClientRootAccess",
)


def file_system_policy(aws: AwsContext, arn: str, clients: Sequence[str]) -> Document:
    """Who may mount a file system: the clients, encrypted on the way, by an access point, never as root.

    EFS joins this policy with what IAM allows a caller. Saying whom it allows would therefore leave in every role of
    the account that may mount anything; so it says whom it refuses, and that is everybody else.
    """
    deny_others: Document = {
        "Sid": "RefuseStrangers",
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": [MOUNT, ROOT, WRITE],
        "Resource": arn,
    }
    denials: list[Document] = [
        {
            "Sid": "RefusePlainText",
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": "*",
            "Resource": arn,
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
        {
            "Sid": "RefuseRoot",
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": ROOT,
            "Resource": arn,
        },
        {
            "Sid": "RefuseWithoutAccessPoint",
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": [MOUNT, WRITE],
            "Resource": arn,
            "Condition": {"Null": {"elasticfilesystem:AccessPointArn": "true"}},
        },
    ]
    if not clients:
        return document(*denials, deny_others)
    client_arns = sorted(set(clients))
    return document(
        *denials,
        # A caller without an identity has no principal to compare, and a negated comparison then holds: refused too.
        {**deny_others, "Condition": {"ArnNotEquals": {"aws:PrincipalArn": client_arns}}},
        {
            "Sid": "AdmitClients",
            "Effect": "Allow",
            "Principal": {"AWS": client_arns},
            "Action": [MOUNT, WRITE],
            "Resource": arn,
            "Condition": {
                "Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"},
                "StringLike": {"elasticfilesystem:AccessPointArn": aws.arn("elasticfilesystem", "access-point/fsap-*")},
            },
        },
    )


def interface_endpoint_policy(aws: AwsContext, service: str) -> Document:
    """An interface endpoint for this account's identities: credentials brought along from elsewhere do not work there.

    A token is traded for a role's credentials by a caller that has no identity yet, which concerns STS alone.
    """
    own_principals: Document = {
        "Sid": "OwnIdentities",
        "Effect": "Allow",
        "Principal": "*",
        "Action": "*",
        "Resource": "*",
        "Condition": {"StringEquals": {"aws:PrincipalAccount": aws.account}},
    }
    if service != "sts":
        return document(own_principals)
    return document(
        own_principals,
        {
            "Sid": "TokensForOwnRoles",
            "Effect": "Allow",
            "Principal": "*",
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Resource": f"arn:{aws.partition}:iam::{aws.account}:role/*",
        },
    )


def dynamodb_endpoint_policy(aws: AwsContext) -> Document:
    """The DynamoDB gateway: tables of this account."""
    return document(_own_resources(aws, "dynamodb:*"))


def s3_endpoint_policy(aws: AwsContext) -> Document:
    """The S3 gateway: everything in buckets of this account, and reading elsewhere, but writing nowhere else.

    Image layers, package mirrors and the release files of many projects are in buckets of other accounts.
    """
    return document(
        _own_resources(aws, "s3:*"),
        {
            "Sid": "ReadElsewhere",
            "Effect": "Allow",
            "Principal": "*",
            "Action": ["s3:GetObject", "s3:GetObjectVersion"],
            "Resource": "*",
        },
    )


def _own_resources(aws: AwsContext, action: str) -> Document:
    return {
        "Sid": "OwnResources",
        "Effect": "Allow",
        "Principal": "*",
        "Action": action,
        "Resource": "*",
        "Condition": {"StringEquals": {"aws:ResourceAccount": aws.account}},
    }
