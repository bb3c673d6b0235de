"""Benchmarks: each measures a figure beside a baseline of the same run and returns both with their ratio."""
