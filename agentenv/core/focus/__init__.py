"""FOCUS 1.2, the FinOps Open Cost and Usage Specification: its columns, rows of it from a statement, and its rules."""
