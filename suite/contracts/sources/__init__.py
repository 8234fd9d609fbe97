"""The sources of numeric examples."""
