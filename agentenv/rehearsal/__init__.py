"""The embedded default: the engine's tools, a simulated cloud, and stand-ins for plugins that are not installed.

Nothing in the program knows that it is rehearsed. The simulation sits at the endpoints (`cloud/`), so that official
plugins and stand-ins (`aws/`) meet the same cloud.
"""
