"""Rules about the network, with their samples."""
