"""One file for each signature of another library; the name of the file is the signature's."""
