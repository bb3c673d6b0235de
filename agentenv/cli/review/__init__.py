"""What a pull request changes, said before it is merged.

Data flows one way: two graphs of desired resources (`offline` makes both here, `selected` reads them from a stack's
preview) become changes, losses, findings, capabilities and quota needs, these become one `Report`, and the report is
written in four formats. Nothing but `offline` and `selected` starts a process.
"""
