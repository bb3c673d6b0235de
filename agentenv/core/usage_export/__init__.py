"""The bill by the hour, as AWS exports it (CUR 2.0 with split cost data): its columns, where it lies, what is asked of
it. Plain data and text; what is made of it is in `components/cost/usage_export.py` and
`components/cost/usage_queries.py`.
"""
