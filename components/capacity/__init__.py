"""Nodes: Karpenter, its node pools, and the headroom kept free."""
