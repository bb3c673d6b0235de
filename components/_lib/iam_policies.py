"""IAM policy documents as plain data, so that they can be read, tested and compared without an engine.

Each function takes the AWS context and the names that the document refers to. Lists are sorted: the same arguments
give the same JSON, and a second update has nothing to change.
"""

import json
from collections.abc import Sequence
from typing import Any

import pulumi

from agentenv.components._lib.aws_context import AwsContext
from agentenv.core.iam.documents import policy_document

Document = dict[str, Any]

# Key actions that the account's own IAM policies may grant: administration, never use of the key.
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


def to_json(policy: Document) -> str:
    """Return a policy as compact JSON, because spaces count towards its length limit."""
    return json.dumps(policy, separators=(",", ":"), sort_keys=True)


def policy_json(policy: pulumi.Output[Document]) -> pulumi.Output[str]:
    """Return a policy that is not known yet as JSON."""
    return policy.apply(to_json)


def service_trust_policy(aws: AwsContext, service: str, source: str) -> Document:
    """Return the trust policy of a role for one AWS service, acting for resources of this account only."""
    return policy_document(
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
    """Return the policy of a role that writes into one existing log group, and neither creates nor reads any."""
    return policy_document(
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
    """Return the policy of a key for the log groups with these name patterns.

    CloudWatch Logs encrypts with it, and decrypts for callers that may read those log groups.
    """
    logs = f"logs.{aws.region}.{aws.dns_suffix}"
    arns = [aws.arn("logs", f"log-group:{names}") for names in log_groups]
    return policy_document(
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
    """Return the policy of a key that is used through EFS only; no principal decrypts with it directly.

    Backups read through EFS too, and then encrypt with the key of the backup vault.
    """
    return policy_document(
        _administration(aws),
        _used_through(
            aws,
            f"elasticfilesystem.{aws.region}.{aws.dns_suffix}",
            "ThroughFileSystems",
            (*KEY_USE, "kms:CreateGrant"),
        ),
    )


def volume_key_policy(aws: AwsContext) -> Document:
    """Return the policy of a key for node volumes, used through EC2 only."""
    return policy_document(
        _administration(aws),
        _used_through(aws, f"ec2.{aws.region}.{aws.dns_suffix}", "ThroughVolumes", (*KEY_USE, "kms:CreateGrant")),
    )


def secrets_key_policy(aws: AwsContext) -> Document:
    """Return the policy of the key for Kubernetes secrets; EKS uses it through a grant of the cluster's creator."""
    return policy_document(
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


def refuse_plain_text(action: str, resource: str | list[str]) -> Document:
    """Return a statement that denies requests without TLS."""
    return {
        "Sid": "RefusePlainText",
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": action,
        "Resource": resource,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }


def file_system_policy(aws: AwsContext, arn: str, clients: Sequence[str]) -> Document:
    """Return the policy of a file system: clients mount with TLS, through an access point, never as root.

    Of a mount's condition keys EFS enforces `aws:SecureTransport`, `aws:SourceIp`,
    `elasticfilesystem:AccessPointArn` and `elasticfilesystem:AccessedViaMountTarget` only. So no statement can deny
    all principals but the clients. Other roles of the account with `Client*` of their own are kept out by the security
    group of the mount targets.
    """
    denials: list[Document] = [
        refuse_plain_text("*", arn),
        {
            "Sid": "RefuseRoot",
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": ROOT,
            "Resource": arn,
        },
    ]
    if not clients:
        nobody: Document = {
            "Sid": "RefuseEverybody",
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": [MOUNT, WRITE],
            "Resource": arn,
        }
        return policy_document(*denials, nobody)
    return policy_document(
        *denials,
        {
            "Sid": "RefuseWithoutAccessPoint",
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": [MOUNT, WRITE],
            "Resource": arn,
            "Condition": {"Null": {"elasticfilesystem:AccessPointArn": "true"}},
        },
        {
            "Sid": "AdmitClients",
            "Effect": "Allow",
            "Principal": {"AWS": sorted(set(clients))},
            "Action": [MOUNT, WRITE],
            "Resource": arn,
            "Condition": {
                "Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"},
                "StringLike": {"elasticfilesystem:AccessPointArn": aws.arn("elasticfilesystem", "access-point/fsap-*")},
            },
        },
    )


def interface_endpoint_policy(aws: AwsContext, service: str) -> Document:
    """Return the policy of an interface endpoint that accepts only principals of this account.

    For STS it also allows AssumeRoleWithWebIdentity, whose callers have no AWS identity yet.
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
        return policy_document(own_principals)
    return policy_document(
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
    """Return the policy of the DynamoDB gateway endpoint: tables of this account only."""
    return policy_document(_own_resources(aws, "dynamodb:*"))


def s3_endpoint_policy(aws: AwsContext) -> Document:
    """Return the policy of the S3 gateway endpoint: all actions in this account's buckets, and reads in all others.

    Image layers, package mirrors and the release files of many projects are in buckets of other accounts.
    """
    return policy_document(
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
