"""Pods whose program runs for real, as a process on this machine."""
