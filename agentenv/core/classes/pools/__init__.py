"""Warm pools: their sizes, their schedules, and the objects of them."""
