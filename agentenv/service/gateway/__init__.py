"""The service side of the gateway: who may enter which workspace, and waking it."""
