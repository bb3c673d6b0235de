"""Tests of `agentenv dev` with sandboxes that run."""
