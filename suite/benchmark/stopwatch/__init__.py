"""Trust in the stopwatch: what it claims of identical implementations, what it finds, what other stopwatches say."""
