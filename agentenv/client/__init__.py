"""A typed client of the workspace service's API. It imports nothing else of the package."""

from agentenv.client.client import ApiError, AsyncClient, Client, ClientError

__all__ = ["ApiError", "AsyncClient", "Client", "ClientError"]
