"""The rules, a module a family, and the samples of each; `registry` gathers them from this folder.

A rule is one function over one view. It says what it found by `fail` and `unknown`; saying nothing is a pass.
"""
