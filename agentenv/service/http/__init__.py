"""The HTTP API: what is asked and answered, a module a thing."""
