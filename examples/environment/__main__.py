"""An environment from its stack file."""

import pulumi

from agentenv.components.environment import Environment
from agentenv.components.stack_configuration import stack_settings
from agentenv.core.plan import plan

environment = Environment("agents", plan(stack_settings()))

pulumi.export("clusterName", environment.cluster_name)
pulumi.export("kubeconfig", environment.kubeconfig)
pulumi.export("fileSystemIds", environment.file_system_ids)
pulumi.export("sandboxClasses", environment.sandbox_classes)
