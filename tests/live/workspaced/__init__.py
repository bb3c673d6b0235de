"""The program inside a sandbox, as its clients see it."""
