"""The workspace service as Kubernetes and IAM documents."""
