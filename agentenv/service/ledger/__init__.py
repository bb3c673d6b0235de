"""The ledger: who held what and when, and what was used of it, in a DynamoDB table."""
