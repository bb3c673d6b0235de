"""Exact sets of addresses, ports, pods and domains, and what is reached through them."""
