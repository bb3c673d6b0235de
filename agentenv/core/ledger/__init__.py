"""The ledger: its rows, its table, its rates, and the budgets that act on it."""
