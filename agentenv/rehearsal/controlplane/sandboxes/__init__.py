"""Pods of sandbox classes that run: workspaced as a process of this machine, behind an address of its own."""
