"""AWS clients of the service."""
