"""Rules about the cluster, with their samples."""
