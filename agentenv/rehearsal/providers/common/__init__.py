"""What all stand-in plugins share: the gRPC server, property values, errors, and messages to the user."""
