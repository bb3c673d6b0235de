"""What every plugin of ours needs to be one: a served port, errors the engine understands, and words to the user."""
