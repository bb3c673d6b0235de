"""The VPC: subnets, endpoints, flow logs, or an existing network."""
