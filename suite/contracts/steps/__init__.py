"""Contracts of single steps of attention, and of steps of training and scoring."""
