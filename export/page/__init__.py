"""A folder of static files that translates in a browser, without a server."""
