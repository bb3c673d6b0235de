"""What the service tells of itself: metrics without people in them, logs without secrets, traces where asked for."""
