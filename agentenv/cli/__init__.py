"""The command line. It may import everything; nothing imports it."""
