"""The tests mirror the rooms: `fast` needs loopback only, `engine` the real Pulumi CLI, `live` a real API server."""
