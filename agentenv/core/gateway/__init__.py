"""The gateway: hosts, credentials and Envoy's configuration. Pure."""
