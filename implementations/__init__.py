"""What is submitted: a folder per contract, a file per implementation."""
