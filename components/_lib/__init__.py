"""Shared parts of the components: options, tags, existing resources, IAM documents, Kubernetes objects."""
