"""A stand-in for the official aws provider, used only where that one is not installed."""
