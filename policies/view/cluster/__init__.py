"""Clusters, pods, instances and admission as rules see them."""
