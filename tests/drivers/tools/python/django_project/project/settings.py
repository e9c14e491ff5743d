"""A project with users, sessions and one application, all of them in one database."""

import os

SECRET_KEY = "only for the tests"
USE_TZ = True
TIME_ZONE = "UTC"
INSTALLED_APPS = [
    "project.apps.ContentTypes",
    "project.apps.Users",
    "django.contrib.sessions",
    "django_mongodb_backend",
    "library",
]
DATABASES = {
    "default": {
        "ENGINE": "django_mongodb_backend",
        "HOST": os.environ["QUARRY_URI"],
        "NAME": os.environ["QUARRY_DATABASE"],
    }
}
DATABASE_ROUTERS = ["django_mongodb_backend.routers.MongoRouter"]
DEFAULT_AUTO_FIELD = "django_mongodb_backend.fields.ObjectIdAutoField"
# Their own migrations make keys that are numbers; these are made by `makemigrations`.
MIGRATION_MODULES = {"auth": "mongo_migrations.auth", "contenttypes": "mongo_migrations.contenttypes"}
