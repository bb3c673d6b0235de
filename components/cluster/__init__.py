"""The EKS cluster: access, add-ons, Fargate, security groups, or an existing cluster."""
