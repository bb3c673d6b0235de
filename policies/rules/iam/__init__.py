"""Rules about IAM, with their samples."""
