"""Who owes what of a bill: pure arithmetic over the ledger's rows, the warm slots' time and the bill's lines."""
