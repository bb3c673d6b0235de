"""Sandboxes, their namespaces, and what they may reach, as rules see them."""
