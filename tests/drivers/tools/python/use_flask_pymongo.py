"""A page of letters in Flask with Flask-PyMongo: `use_flask_pymongo.py URI DATABASE`. Prints what its pages answer as JSON."""

import io
import json
import sys

from flask import Flask, jsonify, request
from flask_pymongo import DESCENDING, PyMongo


def application(uri):
    app = Flask("letters")
    mongo = PyMongo(app, uri=uri)

    @app.post("/letters")
    def write():
        return {"id": mongo.db.letters.insert_one(request.get_json()).inserted_id}

    @app.get("/letters")
    def everything():
        return jsonify(list(mongo.db.letters.find({}, {"_id": 0}).sort("words", DESCENDING)))

    @app.get("/letters/<ObjectId:number>")
    def one(number):
        return jsonify(mongo.db.letters.find_one_or_404({"_id": number}))

    @app.post("/files/<name>")
    def save(name):
        mongo.save_file(name, request.files["file"])
        return {"saved": name}

    @app.get("/files/<name>")
    def load(name):
        return mongo.send_file(name)

    return app


def main(uri, name):
    client = application(f"{uri}{name}").test_client()
    first = client.post("/letters", json={"to": "Ada", "words": 120}).get_json()["id"]
    client.post("/letters", json={"to": "Carl", "words": 300})
    text = b"Dear Sir, " * 40_000
    client.post("/files/letter.txt", data={"file": (io.BytesIO(text), "letter.txt")})
    file = client.get("/files/letter.txt")
    print(json.dumps({
        "first": client.get(f"/letters/{first['$oid'] if isinstance(first, dict) else first}").get_json()["to"],
        "all": client.get("/letters").get_json(),
        "missing": client.get(f"/letters/{'0' * 24}").status_code,
        "file": (file.status_code, file.mimetype, file.data == text),
        "known": client.get("/files/letter.txt", headers={"If-None-Match": file.headers["ETag"]}).status_code,
        "no file": client.get("/files/other.txt").status_code,
    }))


if __name__ == "__main__":
    main(*sys.argv[1:])
