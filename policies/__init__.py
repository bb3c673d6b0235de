"""Policy as code: `rules/` has one module a family, `isolation/` and `cost/` are the two packs that run them."""

if __name__ != "agentenv.policies":  # a second copy of every module would follow, with classes of its own
    raise ImportError("import agentenv.policies; the folder policies/ is a part of that package")
