"""The settings of an environment: `read` turns a stack file into `Settings`, or raises `Mistakes` with every mistake.

`sections` has a module for each section of a stack file, and `values` the types that they share.
"""

from agentenv.config.mistakes import Mistake, Mistakes
from agentenv.config.reader import read
from agentenv.config.settings import Settings

__all__ = ["Mistake", "Mistakes", "Settings", "read"]
