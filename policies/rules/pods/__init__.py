"""Rules about pods, with their samples."""
