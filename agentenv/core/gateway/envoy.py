"""The configuration of Envoy, as one document: listeners, hosts, authorization and clusters.

A request for a workspace is authorized by the workspace service, whose answer names the sandbox's address in a header.
Envoy removes that header from every request that it receives. A route leads to a sandbox only if the header is there
after the authorization, so nothing is routed without one. No workspace is in the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentenv.core.capabilities.cluster_facts import DAEMON_PORT
from agentenv.core.gateway.hosts import CONSOLE, CONSOLE_PATH, SANDBOX_HOST, SERVICE_HOSTS
from agentenv.core.service.rbac import NAME

Plain = dict[str, Any]

NAMESPACE = "gateway"
# Where a request goes, as `address:port`: set by the authorization only.
DESTINATION = "x-gateway-destination"
# Ours, those of other proxies, and those by which a program learns the address of its caller.
STRIPPED_PREFIXES: Final = ("x-gateway-", "x-workspace-", "x-envoy-", "x-forwarded-")
STRIPPED: Final = ("forwarded", "x-real-ip")
# By these a response would change something of the host that it comes from.
HEADERS_OF_A_HOST: Final = (
    "set-cookie",
    "clear-site-data",
    "service-worker-allowed",
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-expose-headers",
    "strict-transport-security",
    "www-authenticate",
    "alt-svc",
    "link",
    "location",
    "refresh",
    "nel",
    "report-to",
    "reporting-endpoints",
    "sourcemap",
    "speculation-rules",
)
# workspaced serves both as upgrades of HTTP/1.1.
UPGRADES: Final = ("websocket", "ssh")

HTTP_PORT = 8080
STATUS_PORT = 8081
AUTHORIZER_PORT = 9191
ADMIN_SOCKET = "/run/envoy/admin.sock"
READY_PATH, METRICS_PATH = "/ready", "/stats/prometheus"

MOST_HEADERS_KIB = 32
MOST_HEADERS = 100
HEADERS_SECONDS = 10  # within which the headers of a request have to arrive
# What Envoy has at rest and as a reserve, and what a connection takes with a request and its buffers.
REST_BYTES, CONNECTION_BYTES = 96 * 2**20, 20 * 2**10
# The part of the container's memory from which on Envoy defends itself.
HEAP_SHARE = 0.85
# Of one address, a second and at once; a whole office may have one.
SOURCE_REQUESTS, SOURCE_BURST = 500, 2_000
MOST_SOURCES = 10_000
# Of one address to the paths of the sign-in, which nobody has signed in for: four make a sign-in.
SIGN_IN_REQUESTS, SIGN_IN_BURST = 5, 600
SIGN_IN_PATHS: Final = "/v1/sign-"
MOST_CONNECTIONS_OF_WORKSPACE = 1024
# A wake holds a request for up to a minute.
AUTHORIZATION_SECONDS = 65
# The load balancer drops a connection after 350 s without a packet; so ours are idle for less, or kept alive.
IDLE_SECONDS = 300
KEEPALIVE_SECONDS = 60
# A silent stream may be a terminal that nobody types in. Dead peers are found by keep-alives.
SILENT_STREAM_SECONDS = 86_400
# An address is used again 30 s after its pod is gone, at the earliest. No idle connection to it is left by then.
IDLE_UPSTREAM_SECONDS = 20

_TYPE: Final = "type.googleapis.com/envoy.extensions"
_WORKSPACES, _GRPC, _SERVICE, _AUTHORIZER, _ADMIN = "workspaces", "workspaces-grpc", "service", "authorizer", "admin"
_AUTHORIZATION: Final = "envoy.filters.http.ext_authz"
_NO_AUTHORIZATION: Final = {"@type": f"{_TYPE}.filters.http.ext_authz.v3.ExtAuthzPerRoute", "disabled": True}
_LIMIT: Final = "envoy.filters.http.local_ratelimit"
_GRPC_CONTENT: Final = r"application/grpc([+;].*)?"
_HEAP: Final = "envoy.resource_monitors.fixed_heap"
_ADDRESS: Final = rf"([0-9]{{1,3}}\.){{3}}[0-9]{{1,3}}:{DAEMON_PORT}"


@dataclass(frozen=True)
class EnvoyPlan:
    """The inputs of the configuration. The defaults are those of a pod; a machine may have others."""

    domain: str
    workspace_domain: str
    service_port: int
    service_host: str = f"{NAME}.{NAME}.svc.cluster.local"
    # A headless Service, so that every replica is known, and left out while it does not answer.
    authorizer_host: str = f"{NAME}-authorizer.{NAME}.svc.cluster.local"
    authorizer_port: int = AUTHORIZER_PORT
    address: str = "0.0.0.0"  # noqa: S104 - in the pod
    port: int = HTTP_PORT
    status_port: int = STATUS_PORT
    admin_socket: str = ADMIN_SOCKET
    # Whether every connection begins with the PROXY protocol, which tells the address of the caller.
    proxy_protocol: bool = True
    scheme: str = "https"  # by which callers reach it
    memory: int = 256 * 2**20  # bytes of its container
    source_requests: int = SOURCE_REQUESTS
    source_burst: int = SOURCE_BURST
    sign_in_requests: int = SIGN_IN_REQUESTS
    sign_in_burst: int = SIGN_IN_BURST
    source_seconds: int = 1  # in which an address may send so many requests
    # Further hosts of the service and of the sandbox host, for a machine that resolves no name below its domain.
    service_aliases: tuple[str, ...] = ()
    sandbox_aliases: tuple[str, ...] = ()

    @property
    def most_connections(self) -> int:
        """Return how many connections its memory admits."""
        return max(1_000, (self.memory - REST_BYTES) // CONNECTION_BYTES)


def bootstrap(plan: EnvoyPlan) -> Plain:
    """Return the whole configuration."""
    return {
        "node": {"id": NAMESPACE, "cluster": NAMESPACE},
        "admin": {"address": {"pipe": {"path": plan.admin_socket, "mode": 0o600}}},
        "static_resources": {
            "listeners": [_listener(plan), _status_listener(plan)],
            "clusters": [
                _workspaces(plan, _WORKSPACES, "http_protocol_options"),
                _workspaces(plan, _GRPC, "http2_protocol_options"),
                _service(plan),
                _authorizer(plan),
                _admin(plan),
            ],
        },
        "overload_manager": _overload(plan),
    }


def _overload(plan: EnvoyPlan) -> Plain:
    """Return the defence of its memory: it sheds what is idle, then what is new, before the container is killed."""
    monitors = "resource_monitors"

    def action(name: str, trigger: Plain, **more: Any) -> Plain:
        return {"name": f"envoy.overload_actions.{name}", "triggers": [{"name": _HEAP, **trigger}], **more}

    scaled = {
        "@type": "type.googleapis.com/envoy.config.overload.v3.ScaleTimersOverloadActionConfig",
        "timer_scale_factors": [{"timer": "HTTP_DOWNSTREAM_CONNECTION_IDLE", "min_timeout": _seconds(5)}],
    }
    return {
        "refresh_interval": "0.25s",
        "resource_monitors": [
            {
                "name": "envoy.resource_monitors.global_downstream_max_connections",
                "typed_config": {
                    "@type": f"{_TYPE}.{monitors}.downstream_connections.v3.DownstreamConnectionsConfig",
                    "max_active_downstream_connections": plan.most_connections,
                },
            },
            {
                "name": _HEAP,
                "typed_config": {
                    "@type": f"{_TYPE}.{monitors}.fixed_heap.v3.FixedHeapConfig",
                    "max_heap_size_bytes": int(plan.memory * HEAP_SHARE),
                },
            },
        ],
        "actions": [
            action("reduce_timeouts", _between(0.75, 0.95), typed_config=scaled),
            action("shrink_heap", _above(0.85)),
            action("disable_http_keepalive", _above(0.92)),
            action("reject_incoming_connections", _above(0.95)),
            action("stop_accepting_requests", _above(0.98)),
        ],
    }


def _above(share: float) -> Plain:
    return {"threshold": {"value": share}}


def _between(scaling: float, saturated: float) -> Plain:
    return {"scaled": {"scaling_threshold": scaling, "saturation_threshold": saturated}}


def _listener(plan: EnvoyPlan) -> Plain:
    proxy_protocol = {
        "name": "envoy.filters.listener.proxy_protocol",
        "typed_config": {"@type": f"{_TYPE}.filters.listener.proxy_protocol.v3.ProxyProtocol"},
    }
    return {
        "name": "http",
        "address": _socket(plan.address, plan.port),
        "per_connection_buffer_limit_bytes": 32_768,
        # The balancer answers these, and then regards the connection as used.
        "tcp_keepalive": _keepalive(),
        "listener_filters": [proxy_protocol] if plan.proxy_protocol else [],
        "filter_chains": [{"filters": [_connection_manager(plan)]}],
    }


def _connection_manager(plan: EnvoyPlan) -> Plain:
    config: Plain = {
        "@type": f"{_TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "http",
        "codec_type": "AUTO",
        "use_remote_address": True,
        # No caller is trusted more because of a private address.
        "internal_address_config": {"cidr_ranges": []},
        "early_header_mutation_extensions": [_strip()],
        "scheme_header_transformation": {"scheme_to_overwrite": plan.scheme},
        # No decision depends on the path, so programs get it as it came, but for dots.
        "normalize_path": True,
        "merge_slashes": False,
        "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
        "server_header_transformation": "PASS_THROUGH",
        "common_http_protocol_options": {
            "idle_timeout": _seconds(IDLE_SECONDS),
            "max_headers_count": MOST_HEADERS,
            "headers_with_underscores_action": "DROP_HEADER",
        },
        "max_request_headers_kb": MOST_HEADERS_KIB,
        "request_headers_timeout": _seconds(HEADERS_SECONDS),
        "stream_idle_timeout": _seconds(IDLE_SECONDS),
        "http2_protocol_options": {
            "max_concurrent_streams": 256,
            "initial_stream_window_size": 262_144,
            "initial_connection_window_size": 1_048_576,
            "connection_keepalive": {"interval": _seconds(KEEPALIVE_SECONDS), "timeout": _seconds(20)},
        },
        "upgrade_configs": [{"upgrade_type": kind} for kind in UPGRADES],
        "access_log": [_access_log()],
        "route_config": _routes(plan),
        "http_filters": [
            {"name": _LIMIT, "typed_config": _limit_of_sources(plan, plan.source_burst, plan.source_requests)},
            {
                "name": _AUTHORIZATION,
                "typed_config": {
                    "@type": f"{_TYPE}.filters.http.ext_authz.v3.ExtAuthz",
                    "transport_api_version": "V3",
                    "grpc_service": {
                        "envoy_grpc": {"cluster_name": _AUTHORIZER},
                        "timeout": _seconds(AUTHORIZATION_SECONDS),
                    },
                    "failure_mode_allow": False,
                    "status_on_error": {"code": "ServiceUnavailable"},
                    # The route is chosen anew by the header that the authorization sets.
                    "clear_route_cache": True,
                    "validate_mutations": True,
                },
            },
            _router(),
        ],
    }
    return {"name": "envoy.filters.network.http_connection_manager", "typed_config": config}


def _limit_of_sources(plan: EnvoyPlan, most: int, rate: int) -> Plain:
    """Return the limit of the requests of each address, before anybody is asked about them."""

    def bucket(burst: int, rate: int, seconds: int) -> Plain:
        return {"max_tokens": burst, "tokens_per_fill": rate, "fill_interval": _seconds(seconds)}

    always = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}
    return {
        "@type": f"{_TYPE}.filters.http.local_ratelimit.v3.LocalRateLimit",
        "stat_prefix": "sources",
        "filter_enabled": always,
        "filter_enforced": always,
        # Of all addresses together there is no limit here, so it is never reached.
        "token_bucket": bucket(2**30, 2**30, 1),
        "always_consume_default_token_bucket": False,
        # An entry without a value stands for every address, each with a bucket of its own.
        "descriptors": [
            {
                "entries": [{"key": "remote_address"}],
                "token_bucket": bucket(most, rate, plan.source_seconds),
            }
        ],
        "max_dynamic_descriptors": MOST_SOURCES,
        "rate_limits": [{"actions": [{"remote_address": {}}]}],
        "response_headers_to_add": [{"header": {"key": "retry-after", "value": "1"}}],
    }


def _strip() -> Plain:
    """Return the removal of headers before any other part of Envoy sees them."""
    prefixes = [{"remove_on_match": {"key_matcher": {"prefix": prefix}}} for prefix in STRIPPED_PREFIXES]
    return {
        "name": "envoy.http.early_header_mutation.header_mutation",
        "typed_config": {
            "@type": f"{_TYPE}.http.early_header_mutation.header_mutation.v3.HeaderMutation",
            "mutations": [*prefixes, *({"remove": name} for name in STRIPPED)],
        },
    }


def _routes(plan: EnvoyPlan) -> Plain:
    domain, below = plan.domain, plan.workspace_domain
    sandboxes = sorted({f"{SANDBOX_HOST}.{domain}", f"{SANDBOX_HOST}.{below}", *plan.sandbox_aliases})
    one_label = rf"[^.]+\.({'|'.join(sorted({re.escape(domain), re.escape(below)}))})"
    one_label = rf"({'|'.join((one_label, *map(re.escape, plan.sandbox_aliases)))})(:[0-9]+)?"
    return {
        "name": "hosts",
        "ignore_port_in_host_matching": True,
        "request_headers_to_add": [
            {
                "header": {"key": "x-forwarded-proto", "value": plan.scheme},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        ],
        "request_headers_to_remove": ["x-envoy-external-address", "x-envoy-internal"],
        "virtual_hosts": [
            {
                "name": _SERVICE,
                "domains": [
                    domain,
                    *(f"{label}.{domain}" for label in SERVICE_HOSTS if label != CONSOLE),
                    *plan.service_aliases,
                ],
                "routes": _to_service_and_sign_in(plan),
            },
            {
                "name": CONSOLE,
                "domains": [f"{CONSOLE}.{domain}"],
                "routes": [
                    _to_sandbox_of_console(),
                    # The authorization has not been asked yet, or named no destination.
                    {"match": {"prefix": CONSOLE_PATH}, "direct_response": {"status": 503}},
                    *_to_service_and_sign_in(plan),
                ],
            },
            {
                "name": _WORKSPACES,
                "domains": [*sandboxes, f"*.{below}"],
                "routes": [
                    _to_workspace(_GRPC, one_label, _header("content-type", _GRPC_CONTENT)),
                    _to_workspace(_WORKSPACES, one_label),
                    # The authorization has not been asked yet, or named no destination.
                    {
                        "match": {"prefix": "/", "headers": [_header(":authority", one_label)]},
                        "direct_response": {"status": 503},
                    },
                    _not_found(),
                ],
            },
            {"name": "others", "domains": ["*"], "routes": [_not_found()]},
        ],
    }


def _to_service_and_sign_in(plan: EnvoyPlan) -> list[Plain]:
    limit = _limit_of_sources(plan, plan.sign_in_burst, plan.sign_in_requests)
    return [_to_service(SIGN_IN_PATHS, {_LIMIT: limit}), _to_service("/", {})]


def _to_service(prefix: str, filters: Plain) -> Plain:
    route = {"match": {"prefix": prefix}, "route": {"cluster": _SERVICE, "timeout": "0s"}}
    return {**route, "typed_per_filter_config": {_AUTHORIZATION: _NO_AUTHORIZATION, **filters}}


def _to_sandbox_of_console() -> Plain:
    """Return the route to workspaced's API on the console's host, for the console's pages.

    What answers there is no part of the console, and may be no workspaced: it is never shown as a page, never a script,
    and sets neither cookies nor anything else of this host.
    """
    headers = {
        "content-security-policy": "sandbox; default-src 'none'",
        "content-disposition": "attachment",
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }
    return {
        "match": {"prefix": CONSOLE_PATH, "headers": [_header(DESTINATION, _ADDRESS)]},
        "route": {
            "cluster": _WORKSPACES,
            "timeout": "0s",
            "idle_timeout": _seconds(SILENT_STREAM_SECONDS),
            "regex_rewrite": {"pattern": {"regex": rf"^{CONSOLE_PATH}[^/]+"}, "substitution": ""},
        },
        "response_headers_to_remove": list(HEADERS_OF_A_HOST),
        "response_headers_to_add": [
            {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
            for key, value in headers.items()
        ],
    }


def _to_workspace(cluster: str, hosts: str, *also: Plain) -> Plain:
    return {
        "match": {"prefix": "/", "headers": [_header(":authority", hosts), _header(DESTINATION, _ADDRESS), *also]},
        "route": {
            "cluster": cluster,
            "timeout": "0s",
            "idle_timeout": _seconds(SILENT_STREAM_SECONDS),
            # Never a request of which a part was sent.
            "retry_policy": {"retry_on": "connect-failure,refused-stream,reset-before-request", "num_retries": 2},
        },
    }


def _not_found() -> Plain:
    route = {"match": {"prefix": "/"}, "direct_response": {"status": 404}}
    return {**route, "typed_per_filter_config": {_AUTHORIZATION: _NO_AUTHORIZATION}}


def _header(name: str, pattern: str) -> Plain:
    return {"name": name, "string_match": {"safe_regex": {"regex": pattern}}}


def _router() -> Plain:
    config = {"@type": f"{_TYPE}.filters.http.router.v3.Router", "suppress_envoy_headers": True}
    return {"name": "envoy.filters.http.router", "typed_config": config}


def _removal(header: str) -> Plain:
    config = {
        "@type": f"{_TYPE}.filters.http.header_mutation.v3.HeaderMutation",
        "mutations": {"request_mutations": [{"remove": header}]},
    }
    return {"name": "envoy.filters.http.header_mutation", "typed_config": config}


def _codec() -> Plain:
    config = {"@type": f"{_TYPE}.filters.http.upstream_codec.v3.UpstreamCodec"}
    return {"name": "envoy.filters.http.upstream_codec", "typed_config": config}


def _access_log() -> Plain:
    """Return a line for each request, without its path and query, which may hold secrets."""
    fields = {
        "time": "%START_TIME%",
        "method": "%REQ(:METHOD)%",
        "host": "%REQ(:AUTHORITY)%",
        "protocol": "%PROTOCOL%",
        "status": "%RESPONSE_CODE%",
        "flags": "%RESPONSE_FLAGS%",
        "details": "%RESPONSE_CODE_DETAILS%",
        "received": "%BYTES_RECEIVED%",
        "sent": "%BYTES_SENT%",
        "milliseconds": "%DURATION%",
        "caller": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
        "destination": "%UPSTREAM_HOST%",
        "request": "%REQ(X-REQUEST-ID)%",
    }
    config = {"@type": f"{_TYPE}.access_loggers.stream.v3.StdoutAccessLog", "log_format": {"json_format": fields}}
    return {"name": "envoy.access_loggers.stdout", "typed_config": config}


def _status_listener(plan: EnvoyPlan) -> Plain:
    """Return the listener of probes, of the balancer's health checks and of Prometheus."""
    routes = [
        {"match": {"path": path, "headers": [_header(":method", "GET")]}, "route": {"cluster": _ADMIN}}
        for path in (READY_PATH, METRICS_PATH)
    ]
    config: Plain = {
        "@type": f"{_TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "status",
        "route_config": {"virtual_hosts": [{"name": "status", "domains": ["*"], "routes": routes}]},
        "http_filters": [_router()],
    }
    proxy_protocol = {
        "@type": f"{_TYPE}.filters.listener.proxy_protocol.v3.ProxyProtocol",
        "allow_requests_without_proxy_protocol": True,
    }
    manager = {"name": "envoy.filters.network.http_connection_manager", "typed_config": config}
    return {
        "name": "status",
        "address": _socket(plan.address, plan.status_port),
        # A gateway that defends itself is alive, and says so.
        "ignore_global_conn_limit": True,
        "bypass_overload_manager": True,
        # The balancer's health checks have it, too.
        "listener_filters": [{"name": "envoy.filters.listener.proxy_protocol", "typed_config": proxy_protocol}],
        "filter_chains": [{"filters": [manager]}],
    }


def _workspaces(plan: EnvoyPlan, name: str, version: str) -> Plain:
    """Return a cluster of all sandboxes, in one version of HTTP: a connection goes where the header says.

    Only gRPC needs HTTP/2. Upgrades need HTTP/1.1, and so do programs of images that know no other.
    """
    return {
        "name": name,
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "original_dst_lb_config": {"use_http_header": True, "http_header_name": DESTINATION},
        "connect_timeout": _seconds(5),
        "cleanup_interval": _seconds(60),
        "per_connection_buffer_limit_bytes": 32_768,
        "upstream_connection_options": {"tcp_keepalive": _keepalive()},
        "circuit_breakers": {
            **_bounds(plan.most_connections),
            "per_host_thresholds": [{"max_connections": MOST_CONNECTIONS_OF_WORKSPACE}],
        },
        **_protocols(
            IDLE_UPSTREAM_SECONDS,
            # Removed here, after it has chosen the address.
            {"explicit_http_config": {version: {}}, "http_filters": [_removal(DESTINATION), _codec()]},
        ),
    }


def _service(plan: EnvoyPlan) -> Plain:
    return {
        "name": _SERVICE,
        "type": "STRICT_DNS",
        "dns_lookup_family": "V4_ONLY",
        "connect_timeout": _seconds(2),
        "load_assignment": _assignment(_SERVICE, _socket(plan.service_host, plan.service_port)),
        "circuit_breakers": _bounds(plan.most_connections),
        # uvicorn closes a connection that was idle for five seconds.
        **_protocols(4, {"explicit_http_config": {"http_protocol_options": {}}}),
    }


def _authorizer(plan: EnvoyPlan) -> Plain:
    keepalive = {"interval": _seconds(10), "timeout": _seconds(3), "connection_idle_interval": _seconds(5)}
    return {
        "name": _AUTHORIZER,
        "type": "STRICT_DNS",
        "dns_lookup_family": "V4_ONLY",
        "connect_timeout": _seconds(1),
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": _assignment(_AUTHORIZER, _socket(plan.authorizer_host, plan.authorizer_port)),
        "circuit_breakers": _bounds(plan.most_connections),
        # A replica that does not answer is left out, but never the last one.
        "outlier_detection": {
            "consecutive_5xx": 3,
            "interval": _seconds(2),
            "base_ejection_time": _seconds(5),
            "max_ejection_percent": 50,
        },
        **_protocols(
            IDLE_SECONDS,
            {"explicit_http_config": {"http2_protocol_options": {"connection_keepalive": keepalive}}},
        ),
    }


def _admin(plan: EnvoyPlan) -> Plain:
    return {
        "name": _ADMIN,
        "type": "STATIC",
        "connect_timeout": _seconds(1),
        "load_assignment": _assignment(_ADMIN, {"pipe": {"path": plan.admin_socket}}),
    }


def _protocols(idle_seconds: int, versions: Plain) -> Plain:
    options = {
        "@type": f"{_TYPE}.upstreams.http.v3.HttpProtocolOptions",
        "common_http_protocol_options": {"idle_timeout": _seconds(idle_seconds)},
        **versions,
    }
    return {"typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}}


def _bounds(number: int) -> Plain:
    keys: Sequence[str] = ("max_connections", "max_pending_requests", "max_requests")
    return {"thresholds": [dict.fromkeys(keys, number)]}


def _assignment(name: str, address: Plain) -> Plain:
    return {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}]}


def _socket(address: str, port: int) -> Plain:
    return {"socket_address": {"address": address, "port_value": port}}


def _keepalive() -> Plain:
    return {"keepalive_time": KEEPALIVE_SECONDS, "keepalive_interval": 10, "keepalive_probes": 3}


def _seconds(number: int) -> str:
    return f"{number}s"
