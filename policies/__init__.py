"""Policy as code: the rules (`rules/`, a folder for each family), and the two packs that run them.

The packs are `isolation/` and `cost/`.
"""

if __name__ != "agentenv.policies":  # under another name, every module would be loaded twice, with other classes
    raise ImportError("import agentenv.policies; the folder policies/ is part of that package")
