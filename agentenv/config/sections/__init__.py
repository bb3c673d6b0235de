"""The sections of a stack file, a module each."""
