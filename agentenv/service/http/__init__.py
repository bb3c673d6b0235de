"""The HTTP API: routes, schemas, authentication and problems."""
