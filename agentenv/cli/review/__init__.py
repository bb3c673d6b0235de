"""The review of a pull request before it is merged.

Data flows one way. Two graphs of resources (from `offline`, or from `stack_preview` for a real stack) become changes,
losses, findings, capabilities and quota needs. These become one `Report`, which is written in four formats. Only
`offline`, `preview`, `revision` and `stack_preview` start processes.
"""
