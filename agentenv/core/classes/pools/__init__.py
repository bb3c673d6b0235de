"""Warm pools: their sizes, their schedules and their objects."""
