"""Values that everything else is built from: quantities, names, addresses, timestamps. Imports nothing of ours."""
