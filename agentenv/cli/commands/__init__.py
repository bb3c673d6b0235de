"""One module a command. Each offers `add_arguments(parser)` and `run(args) -> int`, and imports lazily."""
