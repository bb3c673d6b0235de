"""A stand-in for the official aws provider: a table of resource types over boto3. Used only where that one is absent."""
