"""Changes of collections that hold documents: a field and a collection get another name, a field and indexes come and go."""

from django.db import migrations, models


def fill(apps, schema_editor):
    apps.get_model("library", "Author").objects.create(name="Mary Somerville", birthday="1780-12-26")


class Migration(migrations.Migration):
    dependencies = [("library", "0001_initial")]
    operations = [
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.RenameField("author", "birthday", "born"),
        migrations.AddField("author", "country", models.CharField(default="GB", max_length=2)),
        migrations.RenameModel("Borrowing", "Loan"),
        migrations.RemoveIndex("book", "by_pages"),
        migrations.AddIndex("book", models.Index(fields=["author", "-published"], name="by_author")),
        migrations.AddConstraint("book", models.UniqueConstraint(fields=["title", "author"], name="one_title")),
    ]
