"""Reports: the cost report, plots of estimates, and the FOCUS export."""
