"""What translations must contain: terms of a file, kept items of a text."""
