"""EFS file systems for homes, their mount targets, and the job that measures homes."""
