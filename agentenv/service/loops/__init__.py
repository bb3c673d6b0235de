"""The loops that maintain workspaces. An elected leader runs them, and each loop runs independently of the others.

Functions in `agentenv/core/lifecycle/` decide, from objects that were read and the current time. A pass reads, decides
and acts, in steps. It may be killed after each step: the next pass, of any replica, continues from there.
"""
