"""The Pulumi program: reads the stack file, creates the environment, and exports the stack outputs."""

import pulumi

from agentenv.components.environment import Environment
from agentenv.components.stack_configuration import stack_settings
from agentenv.core.plan import plan

environment = Environment("agents", plan(stack_settings()))

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
pulumi.export("serviceHosts", environment.service_hosts)
