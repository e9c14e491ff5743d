"""The settings of the project in miniature."""
