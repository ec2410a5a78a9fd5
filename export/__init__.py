"""A trained model made useful: translate with it, export it, serve it."""
