"""The rules and their samples, a folder for each family; `registry` collects them.

The module and samples of each rule are named in docs/reference/policies.md. A rule is one function that yields `fail`
or `unknown`; if it yields nothing, the resource passes.
"""
