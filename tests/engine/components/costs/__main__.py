"""Cost controls, all there are, of an environment without anything else."""

import pulumi

from agentenv.components.cost.cost_controls import CostControls, CostLayout

settings = pulumi.Config()
layout: CostLayout = {
    "monthly_budget": settings.get("budget") or "500",
    "alert_to": "platform@example.com",
    "cost_tags": "activate",
    "cost_labels": True,
    "usage_export": True,
    "usage_export_days": settings.get_int("days") or 400,
    "anomaly_alerts": True,
    "platform_dashboard": True,
}
costs = CostControls(
    "costs",
    {
        "ownership": {"environment": "dev", "owner": "platform", "cost_center": "cc-1"},
        "layout": layout,
        "cluster_name": "agents",
        "file_system_ids": ["fs-12345678"],
        "log_groups": ["/aws/eks/agents/cluster"],
    },
)
pulumi.export("bucket", costs.usage_bucket)
pulumi.export("workgroup", costs.usage_workgroup)
pulumi.export("budget", costs.budget_name)
