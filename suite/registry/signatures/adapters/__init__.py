"""One file for each signature of the field, found by being there; its name is the signature's."""
