"""The parts of running sandboxes that need no control plane."""
