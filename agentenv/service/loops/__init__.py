"""The loops that keep workspaces. One replica is elected to run them, and each loop runs independently of the others.

The decisions of a loop are in `agentenv/core/lifecycle/`, as functions of what was read and of the time. A pass reads,
decides and acts, in steps. It may be killed after each of them: the next pass, of any replica, continues from there.
"""
