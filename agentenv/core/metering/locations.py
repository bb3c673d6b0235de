"""Namespaces, names and ports of the metering stack and of its scrape targets."""

from __future__ import annotations

NAMESPACE = "metering"
PROMETHEUS, OPENCOST, GRAFANA = "prometheus", "opencost", "grafana"
PROMETHEUS_PORT, OPENCOST_PORT = 9090, 9003
# Within the cluster; nobody outside of it is let in, and of those inside only who is named by the policies.
PROMETHEUS_ADDRESS = f"http://{PROMETHEUS}.{NAMESPACE}.svc:{PROMETHEUS_PORT}"
DASHBOARDS = "dashboards"

KUBELET_PORT = 10250
MEASURES, MEASURES_PORT = "kube-state-metrics", 8080
SANDBOX_CONTROLLER, SANDBOX_CONTROLLER_PORT = "agent-sandbox-system", 8080
KARPENTER, KARPENTER_PORT = "karpenter", 8080
SERVICE, SERVICE_PORT = "workspace-service", 9090
