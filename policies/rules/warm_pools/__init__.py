"""Rules about warm pools, with their samples."""
