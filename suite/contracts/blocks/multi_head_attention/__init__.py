"""Multi-head attention, as Vaswani and others define it: maps, heads, and a map of their outputs."""
