"""What each subcommand does, a module each, imported only when it is asked for."""
