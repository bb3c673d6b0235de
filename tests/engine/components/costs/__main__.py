"""All cost controls of an environment, without its other resources."""

import pulumi

from agentenv.components.cost.cost_controls import CostControls
from agentenv.config import read
from agentenv.core.plan import plan

config = pulumi.Config()
cost = {
    "costCenter": "cc-1",
    "monthlyBudget": config.get("budget") or "500",
    "alertTo": "platform@example.com",
    "costTags": "activate",
    "costLabels": True,
    "usageExport": True,
    "usageExportDays": config.get_int("days") or 400,
    "anomalyAlerts": True,
    "platformDashboard": True,
}
settings = read(
    {
        "aws:region": "us-east-1",
        "agent-environment:cluster": {"name": "agents", "publicAccessCidrs": ["203.0.113.0/24"]},
        "agent-environment:cost": cost,
    },
    "dev",
)
costs = CostControls(
    "costs",
    plan(settings).costs,
    file_system_ids=["fs-12345678"],
    log_groups=["/aws/eks/agents/cluster"],
)
pulumi.export("bucket", costs.usage_bucket)
pulumi.export("workgroup", costs.usage_workgroup)
pulumi.export("budget", costs.budget_name)
