"""Where `makemigrations` writes those of Django's own applications."""
