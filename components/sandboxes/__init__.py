"""Sandbox classes, declared workspaces, the agent-sandbox controller, and admission policies."""
