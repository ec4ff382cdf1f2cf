"""A look at a running server: its statistics again and again, as text, in a terminal, and as a page."""
