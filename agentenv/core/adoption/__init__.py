"""Checks of existing resources before they are adopted: VPCs, clusters and file systems.

The checks take plain data: the program reads it through the provider, preflight reads it from AWS.
"""

from agentenv.core.adoption.problem import AdoptionProblem

__all__ = ["AdoptionProblem"]
