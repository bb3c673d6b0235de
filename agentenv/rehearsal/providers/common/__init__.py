"""What every plugin of ours needs to be one: a served port, the engine's values and errors, and words to the user."""
