"""The Pulumi program: reads the stack file, creates the environment, and exports the stack outputs."""

import pulumi
from configuration import refusal, stack_settings

from agentenv.components.environment import Environment
from agentenv.config import Mistakes
from agentenv.core.plan import plan

try:
    settings = stack_settings()
except Mistakes as mistakes:
    raise refusal(mistakes) from None

environment = Environment("agents", plan(settings))

pulumi.export("clusterName", environment.cluster_name)
pulumi.export("kubeconfig", environment.kubeconfig)
pulumi.export("nodePools", environment.pool_names)
pulumi.export("vpcId", environment.vpc_id)
pulumi.export("zones", environment.zone_names)
pulumi.export("publicSubnetIds", environment.public_subnet_ids)
pulumi.export("privateSubnetIds", environment.private_subnet_ids)
pulumi.export("natAddresses", environment.nat_addresses)
pulumi.export("nodesSecurityGroupId", environment.nodes_security_group_id)
pulumi.export("flowLogGroup", environment.flow_log_group)
pulumi.export("fileSystemIds", environment.file_system_ids)
pulumi.export("usageDatabase", environment.usage_database)
pulumi.export("usageWorkgroup", environment.usage_workgroup)
pulumi.export("sandboxClasses", environment.sandbox_classes)
pulumi.export("serviceUrl", environment.service_url)
pulumi.export("serviceAddress", environment.service_address)
