"""Figures of others, each with its source, to stand beside ours."""
