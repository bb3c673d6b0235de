"""Nodes of a rehearsed cluster: kwok, Karpenter, and Fargate."""
