"""A file per topic: the claims of the documents about it, and how each is measured."""
