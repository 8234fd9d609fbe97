"""The figures, one in each file: `FIGURE` is what the file is for, and its name is the file's."""
