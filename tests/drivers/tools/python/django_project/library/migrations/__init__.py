"""How the library's collections came to be what they are."""
