"""Where numeric examples come from."""
