"""The recurrent encoder–decoder with attention, as Bahdanau, Cho and Bengio describe it."""
