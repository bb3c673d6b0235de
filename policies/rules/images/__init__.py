"""Rules about container images, with their samples."""
