"""IAM as plain data: patterns, principals, and the exchange of a token for credentials."""
