"""The text of the files that `python -m agentenv.generate` writes."""
