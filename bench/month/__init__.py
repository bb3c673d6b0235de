"""A simulated month with exact knowledge of every sandbox and of the bill.

`people` draws the sessions of owners, `cluster` schedules their sandboxes on nodes, and `use` draws their usage.
`record` derives what the ledger, the metrics and the bill have of it, and `truth` attributes the bill exactly.
"""
