"""Rules about nodes, with their samples."""
