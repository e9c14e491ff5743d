"""Django's own applications, with keys that are object ids."""

from django.contrib.auth.apps import AuthConfig
from django.contrib.contenttypes.apps import ContentTypesConfig


class ContentTypes(ContentTypesConfig):
    default_auto_field = "django_mongodb_backend.fields.ObjectIdAutoField"


class Users(AuthConfig):
    default_auto_field = "django_mongodb_backend.fields.ObjectIdAutoField"
