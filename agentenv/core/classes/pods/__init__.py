"""The pod of a sandbox: its resources, its hardening, and the containers that we add."""
