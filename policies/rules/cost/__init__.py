"""Rules about costs, with their samples."""
