"""Rules about container runtimes, with their samples."""
