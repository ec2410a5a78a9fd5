"""Pictures of attention for TensorBoard."""
