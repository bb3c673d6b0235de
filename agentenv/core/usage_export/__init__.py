"""The hourly cost and usage export of AWS (CUR 2.0 with split cost data): columns, locations, queries.

The resources are in `components/cost/usage_export.py` and `components/cost/usage_queries.py`.
"""
