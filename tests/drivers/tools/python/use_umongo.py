"""A choir in uMongo: `use_umongo.py URI DATABASE`. Prints what it read through it as JSON."""

import datetime
import json
import sys

from pymongo import MongoClient
from umongo import Document, EmbeddedDocument, ValidationError, fields, validate
from umongo.frameworks import PyMongoInstance


def models(database):
    """The three models, registered with the database."""
    instance = PyMongoInstance(database)

    @instance.register
    class Song(EmbeddedDocument):
        title = fields.StringField(required=True)
        minutes = fields.DecimalField()

    @instance.register
    class Singer(Document):
        name = fields.StringField(required=True, unique=True)
        age = fields.IntegerField(validate=validate.Range(min=6))
        joined = fields.DateTimeField()
        songs = fields.ListField(fields.EmbeddedField(Song))
        teacher = fields.ReferenceField("Singer")

        class Meta:
            collection_name = "singers"
            indexes = ["-age", ("joined", "name")]
            allow_inheritance = True

    @instance.register
    class Soloist(Singer):
        voice = fields.StringField(attribute="v")

    return Song, Singer, Soloist


def main(uri, name):
    with MongoClient(uri) as client:
        song, singer, soloist = models(client[name])
        singer.ensure_indexes()
        ruth = singer(name="Ruth", age=51, joined=datetime.datetime(2001, 2, 3))
        ruth.commit()
        lena = soloist(name="Lena", age=17, voice="alto", teacher=ruth, songs=[song(title="Ave", minutes="3.5")])
        lena.commit()
        try:
            singer(name="Ruth").commit()
            taken = None
        except ValidationError as error:
            taken = error.messages
        lena.songs.append(song(title="Lark", minutes="4"))
        lena.age += 1
        changes = sorted(lena.to_mongo(update=True))
        lena.commit()
        again = soloist.find_one({"name": "Lena"})
        said = {
            "taken": taken,
            "changes": changes,
            "teacher": again.teacher.fetch().name,
            "songs": [(each.title, str(each.minutes)) for each in again.songs],
            "by age": [each.name for each in singer.find().sort("age", 1)],
            "soloists": [each.voice for each in soloist.find({"voice": "alto"})],
            "dumped": again.dump()["age"],
        }
        ruth.delete()
        said["left"] = singer.count_documents()
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
