"""Workspaces in Kubernetes: the operations that the API and the loops need, and their implementation."""
