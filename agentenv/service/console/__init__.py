"""The console: pages for a browser at `console.<domain>`, which use the service's own API."""
