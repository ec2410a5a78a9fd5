"""Pictures of attention, and TensorBoard event files."""
