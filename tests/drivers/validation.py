"""`validate` with `full: true` over all that a server holds: what every test ends with, whatever it was about."""

from wire_client import WireClient


def validate_everything(port):
    """Asserts that every collection of every database is valid; takes as long as reading them does."""
    with WireClient(port, timeout_seconds=300) as connection:
        listed = connection.run({"listDatabases": 1, "nameOnly": True}, "admin")["databases"]
        for database in listed:
            validate_database(connection, database["name"])


def validate_database(connection, database):
    for name in collection_names(connection, database):
        if (database, name) == ("local", "oplog.rs"):
            # A view of the journal, in a set.
            continue
        result = connection.run({"validate": name, "full": True}, database)
        found = {key: result.get(key) for key in ("valid", "errors", "warnings")}
        assert result["valid"] is True and result["errors"] == [], f"{database}.{name}: {found}"


def collection_names(connection, database):
    command = {"listCollections": 1, "nameOnly": True, "filter": {"type": "collection"}}
    cursor = connection.run(command, database)["cursor"]
    names = [entry["name"] for entry in cursor["firstBatch"]]
    while cursor["id"] != 0:
        cursor = connection.run({"getMore": cursor["id"], "collection": "$cmd.listCollections"}, database)["cursor"]
        names += [entry["name"] for entry in cursor["nextBatch"]]
    return names
