"""IAM as plain data: patterns, principals, and the exchange of tokens for credentials."""
