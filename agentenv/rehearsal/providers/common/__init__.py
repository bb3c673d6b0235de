"""Shared parts of the stand-in plugins: the gRPC server, property values, errors, and messages to the user."""
