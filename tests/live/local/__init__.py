"""Tests of processes and sandboxes on this machine."""
