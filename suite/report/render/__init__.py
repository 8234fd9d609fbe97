"""Pages as text: a file for each format. Adding a format changes no page."""
