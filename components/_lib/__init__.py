"""What every component uses: options, tags, existing resources, IAM documents, Kubernetes objects."""
