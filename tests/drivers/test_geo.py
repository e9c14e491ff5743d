"""Places as applications use them: indexes, areas, and the nearest ones, over the wire."""

import pytest
from pymongo import GEO2D, GEOSPHERE
from pymongo.errors import OperationFailure, WriteError

PLACES = [
    {"_id": 1, "name": "Central Park", "location": {"type": "Point", "coordinates": [-73.97, 40.77]}, "category": "Parks"},
    {"_id": 2, "name": "Sara D. Roosevelt Park", "location": {"type": "Point", "coordinates": [-73.9928, 40.7193]}, "category": "Parks"},
    {"_id": 3, "name": "Polo Grounds", "location": {"type": "Point", "coordinates": [-73.9375, 40.8303]}, "category": "Stadiums"},
]
HERE = {"type": "Point", "coordinates": [-73.99279, 40.719296]}


@pytest.fixture
def places(database):
    places = database.places
    places.insert_many(PLACES)
    places.create_index([("location", GEOSPHERE)])
    return places


def test_the_nearest_come_first_and_tell_their_distance(places):
    assert places.index_information()["location_2dsphere"]["2dsphereIndexVersion"] == 3
    assert [place["_id"] for place in places.find({"location": {"$near": {"$geometry": HERE}}})] == [2, 1, 3]
    near = {"near": HERE, "distanceField": "dist.calculated", "maxDistance": 2, "query": {"category": "Parks"}, "includeLocs": "dist.location"}
    [found] = places.aggregate([{"$geoNear": near}])
    # The figure of MongoDB's manual.
    assert found["dist"]["calculated"] == pytest.approx(0.9539931676365992, rel=1e-6)
    assert found["dist"]["location"] == PLACES[1]["location"]
    # One batch after the other.
    assert [place["_id"] for place in places.find({"location": {"$nearSphere": {"$geometry": HERE}}}, batch_size=1)] == [2, 1, 3]


def test_areas_are_found_through_the_index(places):
    square = [[-74, 40.7], [-73.95, 40.7], [-73.95, 40.8], [-74, 40.8], [-74, 40.7]]
    area = {"location": {"$geoWithin": {"$geometry": {"type": "Polygon", "coordinates": [square]}}}}
    assert {place["_id"] for place in places.find(area)} == {1, 2}
    plan = places.find(area).explain()["queryPlanner"]["winningPlan"]
    assert (plan["stage"], plan["inputStage"]["indexName"]) == ("FETCH", "location_2dsphere")
    places.update_one({"_id": 3}, {"$set": {"location.coordinates": [-73.96, 40.75]}})
    assert {place["_id"] for place in places.find(area)} == {1, 2, 3}
    assert places.delete_many(area).deleted_count == 3


def test_errors_are_mongodbs(places, database):
    with pytest.raises(WriteError) as refused:
        places.insert_one({"location": {"type": "Point", "coordinates": [200, 100]}})
    assert refused.value.code == 16755 and "Can't extract geo keys" in refused.value.details["errmsg"]
    with pytest.raises(OperationFailure) as refused:
        list(places.find({"elsewhere": {"$near": [1, 2]}}))
    assert refused.value.code == 291
    with pytest.raises(OperationFailure) as refused:
        places.count_documents({"location": {"$near": {"$geometry": HERE}}})
    assert refused.value.code == 5626500


def test_a_plane_has_its_own_index(database):
    points = database.points
    points.insert_many({"_id": number, "at": [number % 10, number // 10]} for number in range(100))
    points.create_index([("at", GEO2D)], min=-10, max=20)
    assert points.index_information()["at_2d"]["max"] == 20
    assert [point["_id"] for point in points.find({"at": {"$near": [4.1, 5.2]}}).limit(3)] == [54, 64, 55]
    assert points.count_documents({"at": {"$geoWithin": {"$box": [[2, 2], [4, 3]]}}}) == 6
