"""Pods whose program runs as a process on the local machine."""
