"""Prove the promises of the README: deploy a stack, test each promise, destroy the stack, and sign the report."""
