"""The workspace service, its IAM roles, and the table of its ledger."""
