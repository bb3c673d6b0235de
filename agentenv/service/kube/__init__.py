"""Kubernetes clients of the service: requests, retries, informers, and cached views."""
