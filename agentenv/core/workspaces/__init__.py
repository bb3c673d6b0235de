"""Workspaces as the service and the components know them: claims, leases, seats, swarms, homes."""
