"""Rules about EFS, with their samples."""
