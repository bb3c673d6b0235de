"""Authentication and authorization in the cluster: tokens, certificates, access entries, pod credentials."""
