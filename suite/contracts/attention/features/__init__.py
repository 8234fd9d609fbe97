"""The features of attention, one in each file. They are found by looking into this folder."""
