"""Pages as text: a file for each form. A page knows none of them."""
