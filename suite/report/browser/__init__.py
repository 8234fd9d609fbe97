"""Records → report.html: one file for a browser, which loads nothing and is readable without scripts."""
