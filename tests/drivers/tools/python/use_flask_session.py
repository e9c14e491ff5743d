"""A basket in Flask with Flask-Session: `use_flask_session.py URI DATABASE`. Prints what its pages answer as JSON."""

import json
import sys

from flask import Flask, session
from flask_session import Session
from pymongo import MongoClient


def application(client, name):
    app = Flask("basket")
    app.config.update(SESSION_TYPE="mongodb", SESSION_MONGODB=client, SESSION_MONGODB_DB=name, SESSION_MONGODB_COLLECT="sessions")
    Session(app)

    @app.post("/<thing>")
    def put(thing):
        session["basket"] = session.get("basket", []) + [thing]
        return {"basket": session["basket"]}

    @app.get("/")
    def show():
        return {"basket": session.get("basket", [])}

    @app.delete("/")
    def clear():
        session.clear()
        return {}

    return app


def main(uri, name):
    with MongoClient(uri) as client:
        app = application(client, name)
        ann, bob = app.test_client(), app.test_client()
        ann.post("/tea")
        ann.post("/salt")
        bob.post("/milk")
        said = {"ann": ann.get("/").get_json(), "bob": bob.get("/").get_json(), "stranger": app.test_client().get("/").get_json()}
        bob.delete("/")
        said["cleared"] = bob.get("/").get_json()
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
