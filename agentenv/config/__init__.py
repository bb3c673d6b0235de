"""The settings of an environment, read once at the edge: a stack file goes in, `Settings` or every mistake comes out.

A module a room of the plan, and `values` for the types they share. `read` is the only way in.
"""

from agentenv.config.mistakes import Mistake, Mistakes
from agentenv.config.reader import read
from agentenv.config.settings import Settings

__all__ = ["Mistake", "Mistakes", "Settings", "read"]
