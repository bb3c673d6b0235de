"""Metrics without owners, logs without secrets, and traces where an endpoint is configured."""
