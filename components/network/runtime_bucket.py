"""The bucket with copies of the runtimes that nodes install, which nodes of the VPC read with unsigned requests.

`agentenv mirror` fills it. Write access to it does not change what nodes run: they verify each file by a pinned digest.
"""

from functools import partial

import pulumi

from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.planned_documents import PlannedDocuments, Reference, placeholder_vpc_id
from agentenv.components._lib.private_bucket import BucketSettings, create_private_bucket
from agentenv.components._lib.tags import Labels
from agentenv.core.nodes.mirrors import runtime_bucket


def create_runtime_bucket(
    vpc_id: pulumi.Input[str],
    labels: Labels,
    aws: pulumi.Output[AwsContext],
    child: ChildOptions,
    planned_documents: PlannedDocuments,
) -> None:
    """Create the bucket. A destroy deletes it with its objects, which are copies."""
    settings = BucketSettings(
        "runtimes",
        partial(_name, labels.environment),
        _nodes_of_vpc,
        references=(Reference(vpc_id, placeholder_vpc_id),),
    )
    create_private_bucket(settings, labels, aws, child, planned_documents)


def _name(environment: str, aws: AwsContext) -> str:
    return runtime_bucket(environment, aws.account)


def _nodes_of_vpc(_: AwsContext, arn: str, vpc_id: str) -> list[Document]:
    """Return the statement that lets requests from the VPC read objects.

    Only requests through an S3 endpoint of the VPC have `aws:SourceVpc`. S3 treats a policy with a fixed one as not
    public, so the public access block admits it. Unlike the id of an endpoint, that of the VPC is known in an adopted
    network too, and stays when the endpoint is replaced.
    """
    return [
        {
            "Sid": "NodesOfTheVpc",
            "Effect": "Allow",
            "Principal": "*",
            "Action": "s3:GetObject",
            "Resource": f"{arn}/*",
            "Condition": {"StringEquals": {"aws:SourceVpc": vpc_id}},
        }
    ]
