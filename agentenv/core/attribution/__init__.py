"""The attribution of a bill to owners, from the ledger's rows, the time of warm slots and the lines of the bill."""
