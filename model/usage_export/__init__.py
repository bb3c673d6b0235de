"""The bill by the hour, as AWS exports it (CUR 2.0 with split cost data): its columns, where it lies, what is asked of
it. Plain data and text; what is made of it is in `components/usage_export.py` and `components/usage_queries.py`.
"""
