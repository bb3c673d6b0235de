"""What is measured in the cluster: who exports what, how it is scraped, and whose it is at each minute."""
