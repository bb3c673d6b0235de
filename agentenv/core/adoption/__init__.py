"""What stands already and is to be used: what has to be true of it, judged from plain facts.

Who found the facts does not matter: the program asks the provider, preflight asks AWS, and both judge here.
"""

from agentenv.core.adoption.problem import Shortcoming

__all__ = ["Shortcoming"]
