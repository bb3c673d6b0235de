"""The values of the charts that meter: what is switched off, who may do what, and where they run.

All three hold to the restricted standard, on the system's nodes, which alone have no taint. None keeps anything that is
not elsewhere, too: what people are charged is in the ledger, and a dashboard is made anew from its file.
"""

import json
from typing import Any

from agentenv.core.metering import locations as places
from agentenv.core.metering.sizes import Sizes
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.pinned_versions import releases

# Prometheus loses its memory with its pod: nothing but the end of its node's life is to move it.
_STAYS = {"karpenter.sh/do-not-disrupt": "true"}
_CONTAINER: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
CONFIGURATION = "configuration"


def prometheus(sizes: Sizes, mirrors: Mirrors) -> dict[str, Any]:
    """Prometheus alone: what it reads is a ConfigMap of ours, and it notices by itself when that changes."""
    repository, tag = mirrors.image(releases().images["prometheus"]).rsplit(":", 1)
    off = {"enabled": False}
    return {
        "alertmanager": off,
        "kube-state-metrics": off,
        "prometheus-node-exporter": off,
        "prometheus-pushgateway": off,
        "configmapReload": {"prometheus": off},
        # The chart's own role may read through nodes' proxies, which is as much as to run commands there.
        "rbac": {"create": False},
        "serviceAccounts": {"server": {"name": places.PROMETHEUS}},
        "server": {
            "fullnameOverride": places.PROMETHEUS,
            "configMapOverrideName": CONFIGURATION,
            "image": {"repository": repository, "tag": tag},
            "enableServiceLinks": False,
            # Nobody changes anything over its port: without the flags that the chart gives, there is no such way.
            "extraFlags": ["enable-feature=auto-reload-config"],
            "retention": sizes.retention,
            "retentionSize": sizes.disk,
            "persistentVolume": {"enabled": False},
            "emptyDir": {"sizeLimit": sizes.disk_limit},
            "podAnnotations": _STAYS,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65534,
                "runAsGroup": 65534,
                "fsGroup": 65534,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containerSecurityContext": _CONTAINER,
            "resources": sizes.prometheus.resources(),
            "service": {"servicePort": places.PROMETHEUS_PORT},
        },
    }


def opencost(sizes: Sizes, mirrors: Mirrors, cluster: str) -> dict[str, Any]:
    """OpenCost without its page and without its door for language models; prices from AWS's public list."""
    return {
        "fullnameOverride": places.OPENCOST,
        "rbac": {"enabled": False},
        "serviceAccount": {"name": places.OPENCOST},
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
                # It writes its prices beside itself.
                "securityContext": {**_CONTAINER, "readOnlyRootFilesystem": False},
                "resources": sizes.opencost.resources(),
            },
            "prometheus": {
                "internal": {"enabled": False},
                "external": {"enabled": True, "url": places.PROMETHEUS_ADDRESS},
            },
            "ui": {"enabled": False},
            "mcp": {"enabled": False},
        },
    }


def grafana(sizes: Sizes, mirrors: Mirrors) -> dict[str, Any]:
    """Grafana, which shows what is in its files and keeps nothing.

    There is nobody to log in as, and so no password that could be in a state file or be guessed: who may forward a port
    to it, which the cluster's access entries say, may look, and nobody may change anything.
    """
    image, tag = mirrors.image(releases().images["grafana"]).rsplit(":", 1)
    registry, repository = image.split("/", 1)
    return {
        "fullnameOverride": places.GRAFANA,
        "image": {"registry": registry, "repository": repository, "tag": tag},
        "rbac": {"create": False},
        "serviceAccount": {"name": places.GRAFANA},
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
                "default_home_dashboard_path": f"/var/lib/grafana/dashboards/{places.DASHBOARDS}/platform.json"
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
                        "uid": places.PROMETHEUS,
                        "type": "prometheus",
                        "access": "proxy",
                        "url": places.PROMETHEUS_ADDRESS,
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
                        "name": places.DASHBOARDS,
                        "type": "file",
                        "disableDeletion": True,
                        "allowUiUpdates": False,
                        "options": {"path": f"/var/lib/grafana/dashboards/{places.DASHBOARDS}"},
                    }
                ],
            }
        },
        "dashboardsConfigMaps": {places.DASHBOARDS: places.DASHBOARDS},
    }


def configuration(scrape_configs: list[dict[str, Any]], rules: dict[str, Any]) -> dict[str, str]:
    """The files that Prometheus reads. JSON is YAML, too, and has one way only to be written."""
    told = {
        "global": {"scrape_interval": "1m", "evaluation_interval": "1m"},
        "rule_files": ["/etc/config/rules.yml"],
        "scrape_configs": scrape_configs,
    }
    return {"prometheus.yml": json.dumps(told, indent=1), "rules.yml": json.dumps(rules, indent=1)}
