"""Policy as code: `rules/` has one module a family, `isolation/` and `cost/` are the two packs that run them."""
