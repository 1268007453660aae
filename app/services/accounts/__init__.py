"""Who asks, and how much they may use."""
