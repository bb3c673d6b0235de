"""The ledger in a DynamoDB table: intervals of claims, their usage, and the budgets that follow from it."""
