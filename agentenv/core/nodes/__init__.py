"""Nodes: node pools, tiers, bootstrap scripts, image mirrors, and sizes of Fargate."""
