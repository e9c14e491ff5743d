"""A library: authors, books and what is said of them."""
