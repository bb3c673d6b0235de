"""Metering in the cluster: exporters, scraping, and the owner of each minute."""
