"""The sections of a stack file, one module for each."""
