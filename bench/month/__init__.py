"""A simulated month of which everything is known: who held what at every instant, and what the bill says of it.

`people` draws who works when; `cluster` puts their sandboxes on nodes that are bought and lost; `use` draws what runs
in them; `record` writes down what ledger, meters and bill would know of it; `truth` divides the bill by what was.
"""
