"""Approvals of agents' tools by a person, and the webhook that tells of them."""
