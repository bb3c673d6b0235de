"""Budgets, the usage export, and the metrics that attribute costs."""
