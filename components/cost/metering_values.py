"""The Helm values of Prometheus, OpenCost and Grafana.

All three meet the `restricted` pod security standard and run on system nodes, the only ones without a taint. None holds
the only copy of any data: charges are in the ledger, and dashboards are in files.
"""

import json
from typing import Any

from agentenv.config.sections.cost import Alertmanager
from agentenv.core.metering import locations
from agentenv.core.metering.sizes import Sizes
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.pinned_versions import releases

# Prometheus loses its data with its pod: only the expiry of its node may evict it.
_DO_NOT_DISRUPT = {"karpenter.sh/do-not-disrupt": "true"}
_CONTAINER: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
CONFIGURATION = "configuration"


def prometheus(sizes: Sizes, mirrors: Mirrors) -> dict[str, Any]:
    """Return the values of Prometheus, without the chart's other parts; it reloads its ConfigMap by itself."""
    repository, tag = mirrors.image(releases().images["prometheus"]).rsplit(":", 1)
    off = {"enabled": False}
    return {
        "alertmanager": off,
        "kube-state-metrics": off,
        "prometheus-node-exporter": off,
        "prometheus-pushgateway": off,
        "configmapReload": {"prometheus": off},
        # The chart's own role includes `nodes/proxy`, which allows exec into any pod.
        "rbac": {"create": False},
        "serviceAccounts": {"server": {"name": locations.PROMETHEUS}},
        "server": {
            "fullnameOverride": locations.PROMETHEUS,
            "configMapOverrideName": CONFIGURATION,
            "image": {"repository": repository, "tag": tag},
            "enableServiceLinks": False,
            # Without the chart's flags, so without the admin and lifecycle APIs.
            "extraFlags": ["enable-feature=auto-reload-config"],
            "retention": sizes.retention,
            "retentionSize": sizes.disk,
            "persistentVolume": {"enabled": False},
            "emptyDir": {"sizeLimit": sizes.disk_limit},
            "podAnnotations": _DO_NOT_DISRUPT,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65534,
                "runAsGroup": 65534,
                "fsGroup": 65534,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containerSecurityContext": _CONTAINER,
            "resources": sizes.prometheus.resources(),
            "service": {"servicePort": locations.PROMETHEUS_PORT},
        },
    }


def opencost(sizes: Sizes, mirrors: Mirrors, cluster: str) -> dict[str, Any]:
    """Return the values of OpenCost, without its UI and MCP server; prices come from AWS's public list."""
    return {
        "fullnameOverride": locations.OPENCOST,
        "rbac": {"enabled": False},
        "serviceAccount": {"name": locations.OPENCOST},
        "podSecurityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1001,
            "runAsGroup": 1001,
            "fsGroup": 1001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "opencost": {
            "exporter": {
                "defaultClusterId": cluster,
                "image": {"fullImageName": mirrors.image(releases().images["opencost"])},
                # It writes its price list into its own file system.
                "securityContext": {**_CONTAINER, "readOnlyRootFilesystem": False},
                "resources": sizes.opencost.resources(),
            },
            "prometheus": {
                "internal": {"enabled": False},
                "external": {"enabled": True, "url": locations.PROMETHEUS_ADDRESS},
            },
            "ui": {"enabled": False},
            "mcp": {"enabled": False},
        },
    }


def grafana(sizes: Sizes, mirrors: Mirrors) -> dict[str, Any]:
    """Return the values of Grafana, which shows its provisioned dashboards and stores nothing.

    It has no users, and so no password that could leak. Principals whose access entries allow port forwarding can view
    it anonymously; nobody can edit.
    """
    image, tag = mirrors.image(releases().images["grafana"]).rsplit(":", 1)
    registry, repository = image.split("/", 1)
    return {
        "fullnameOverride": locations.GRAFANA,
        "image": {"registry": registry, "repository": repository, "tag": tag},
        "rbac": {"create": False},
        "serviceAccount": {"name": locations.GRAFANA},
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "testFramework": {"enabled": False},
        "initChownData": {"enabled": False},
        "deploymentStrategy": {"type": "Recreate"},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 472,
            "runAsGroup": 472,
            "fsGroup": 472,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "resources": sizes.grafana.resources(),
        "env": {"GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true"},
        "grafana.ini": {
            "analytics": {"check_for_updates": False, "check_for_plugin_updates": False, "reporting_enabled": False},
            "auth": {"disable_login_form": True},
            "auth.anonymous": {"enabled": True, "org_role": "Viewer"},
            "auth.basic": {"enabled": False},
            "dashboards": {
                "default_home_dashboard_path": f"/var/lib/grafana/dashboards/{locations.DASHBOARDS}/platform.json"
            },
            "plugins": {"preinstall_disabled": True},
            "security": {"disable_gravatar": True},
            "users": {"allow_sign_up": False, "viewers_can_edit": False},
        },
        "datasources": {
            "datasources.yaml": {
                "apiVersion": 1,
                "datasources": [
                    {
                        "name": "Prometheus",
                        "uid": locations.PROMETHEUS,
                        "type": "prometheus",
                        "access": "proxy",
                        "url": locations.PROMETHEUS_ADDRESS,
                        "isDefault": True,
                        "editable": False,
                        "jsonData": {"timeInterval": "1m"},
                    }
                ],
            }
        },
        "dashboardProviders": {
            "dashboardproviders.yaml": {
                "apiVersion": 1,
                "providers": [
                    {
                        "name": locations.DASHBOARDS,
                        "type": "file",
                        "disableDeletion": True,
                        "allowUiUpdates": False,
                        "options": {"path": f"/var/lib/grafana/dashboards/{locations.DASHBOARDS}"},
                    }
                ],
            }
        },
        "dashboardsConfigMaps": {locations.DASHBOARDS: locations.DASHBOARDS},
    }


def configuration(
    scrape_configs: list[dict[str, Any]], rules: dict[str, Any], alertmanager: Alertmanager | None = None
) -> dict[str, str]:
    """Return the configuration files of Prometheus, as JSON, which is valid YAML with one canonical form."""
    prometheus_config: dict[str, Any] = {
        "global": {"scrape_interval": "1m", "evaluation_interval": "1m"},
        "rule_files": ["/etc/config/rules.yml"],
        "scrape_configs": scrape_configs,
    }
    if alertmanager is not None:
        address = f"{alertmanager.service}.{alertmanager.namespace}.svc:{alertmanager.port}"
        prometheus_config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [address]}]}]}
    return {"prometheus.yml": json.dumps(prometheus_config, indent=1), "rules.yml": json.dumps(rules, indent=1)}
