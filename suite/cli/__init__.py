"""Subcommands, a module each, imported when the command runs."""
