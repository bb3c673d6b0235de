"""The view that rules have of resources: every value is present, missing or not known yet, and has its path.

`fields` has these values, `environment` the facts about the environment, `resource` a resource with its Kubernetes
objects, and `graph` all resources with their dependencies. The folders have views of clusters, IAM and tenants.
"""
