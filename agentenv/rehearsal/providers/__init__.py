"""Stand-ins for provider plugins that are not installed."""
