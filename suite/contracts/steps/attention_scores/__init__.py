"""The first step of every attention: how much each key has to do with each query."""
