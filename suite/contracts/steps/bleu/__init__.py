"""The contract `bleu`."""
