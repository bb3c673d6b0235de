"""Authentication, permissions and rate limits of callers."""
