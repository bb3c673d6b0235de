"""A retained key, and a queue that is deleted."""

import pulumi
import pulumi_aws as aws

aws.kms.Key("data", opts=pulumi.ResourceOptions(protect=True, retain_on_delete=True))
aws.sqs.Queue("work")
