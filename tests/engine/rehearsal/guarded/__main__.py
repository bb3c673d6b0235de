"""A key that outlives its stack, and a queue that does not."""

import pulumi
import pulumi_aws as aws

aws.kms.Key("data", opts=pulumi.ResourceOptions(protect=True, retain_on_delete=True))
aws.sqs.Queue("work")
