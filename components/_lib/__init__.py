"""What every component uses: arguments, options, tags, IAM documents, Kubernetes objects."""
