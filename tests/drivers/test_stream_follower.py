"""The judge of change streams finds what it is for: each way in which a stream could be wrong is made here, and must be seen.

`judge` is what `test_sessions.py` holds a stream against that a server has told over kills: every event goes through the
follower's model, and what they make is compared with what there is in the end.
"""

import copy

import pytest
from bson import Timestamp

from stream_follower import Model


def event(number, kind, key, before=None, after=None, transaction=None):
    told = {
        "_id": {"_data": f"{number:08x}"},
        "operationType": kind,
        "clusterTime": Timestamp(100, number),
        "ns": {"db": "test", "coll": "things"},
        "documentKey": {"_id": key},
    }
    if before is not None:
        told["fullDocumentBeforeChange"] = {"_id": key, **before}
    if after is not None:
        told["fullDocument"] = {"_id": key, **after}
    if kind == "update":
        told["updateDescription"] = {
            "updatedFields": {name: value for name, value in after.items() if before.get(name) != value},
            "removedFields": [name for name in before if name not in after],
        }
    if transaction is not None:
        told.update(lsid={"id": "one"}, txnNumber=transaction)
    return told


# Two documents that are changed alone and together.
TOLD = [
    event(1, "insert", "a", after={"n": 0}),
    event(2, "insert", "b", after={"n": 0, "gone": True}),
    event(3, "update", "a", {"n": 0}, {"n": 1}),
    event(4, "update", "a", {"n": 1}, {"n": 2}, transaction=1),
    event(5, "update", "b", {"n": 0, "gone": True}, {"n": 2}, transaction=1),
    event(6, "delete", "a", {"n": 2}),
    event(7, "insert", "a", after={"n": 9}),
    event(8, "replace", "b", {"n": 2}, {"m": 1}),
]
LEFT = {("things", "a"): {"_id": "a", "n": 9}, ("things", "b"): {"_id": "b", "m": 1}}


def judge(events):
    model = Model()
    for one in events:
        model.take(one)
    assert model.documents == LEFT
    assert model.transactions == {("one", 1): 2}
    assert len(model.tokens) == len(TOLD)


def test_the_right_stream_passes():
    judge(TOLD)


@pytest.mark.parametrize("place", range(len(TOLD)))
def test_an_event_that_is_lost_is_missed(place):
    with pytest.raises(AssertionError):
        judge(TOLD[:place] + TOLD[place + 1 :])


@pytest.mark.parametrize("place", range(len(TOLD)))
@pytest.mark.parametrize("behind", [0, 1])
def test_an_event_that_comes_again_is_noticed(place, behind):
    with pytest.raises(AssertionError):
        again = min(place + 1 + behind, len(TOLD))
        judge(TOLD[:again] + [TOLD[place]] + TOLD[again:])


def swapped(place):
    events = copy.deepcopy(TOLD)
    events[place], events[place + 1] = events[place + 1], events[place]
    return events


@pytest.mark.parametrize("place", range(len(TOLD) - 1))
def test_two_events_that_change_places_are_noticed(place):
    with pytest.raises(AssertionError):
        judge(swapped(place))


# Of the same document, or of a transaction and of what is behind it: elsewhere either order makes the same of the documents.
@pytest.mark.parametrize("place", [2, 4, 5])
def test_two_events_that_are_told_in_the_wrong_order_from_the_first_are_noticed(place):
    events = swapped(place)
    for told, right in zip(events, TOLD):
        told["_id"], told["clusterTime"] = right["_id"], right["clusterTime"]
    with pytest.raises(AssertionError):
        judge(events)


def with_field(place, name, value):
    events = copy.deepcopy(TOLD)
    events[place][name] = value
    return events


@pytest.mark.parametrize("place", [2, 3, 4, 5, 7])
def test_a_wrong_image_of_before_is_noticed(place):
    events = copy.deepcopy(TOLD)
    events[place]["fullDocumentBeforeChange"]["n"] = 77
    with pytest.raises(AssertionError):
        judge(events)
    del events[place]["fullDocumentBeforeChange"]
    with pytest.raises(AssertionError):
        judge(events)


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 6, 7])
def test_a_wrong_image_of_after_is_noticed(place):
    events = copy.deepcopy(TOLD)
    events[place]["fullDocument"]["n"] = 77
    with pytest.raises(AssertionError):
        judge(events)


@pytest.mark.parametrize("description", [
    {"updatedFields": {"n": 77}, "removedFields": []},
    {"updatedFields": {}, "removedFields": []},
    {"updatedFields": {"n": 1, "more": 1}, "removedFields": []},
    {"updatedFields": {}, "removedFields": ["n"]},
])
def test_a_wrong_description_of_an_update_is_noticed(description):
    with pytest.raises(AssertionError):
        judge(with_field(2, "updateDescription", description))


def test_a_transaction_that_is_told_in_two_parts_is_noticed():
    events = copy.deepcopy(TOLD)
    stranger = event(5, "insert", "c", after={"n": 0})
    events[4]["_id"], events[4]["clusterTime"] = {"_data": "000000055"}, Timestamp(100, 5)
    events.insert(4, stranger)
    with pytest.raises(AssertionError, match="two parts"):
        judge(events)


@pytest.mark.parametrize("kind", ["insert", "delete", "replace"])
def test_another_kind_of_event_is_noticed(kind):
    with pytest.raises((AssertionError, KeyError)):
        judge(with_field(2, "operationType", kind) if kind != "replace" else with_field(0, "operationType", kind))


def test_a_time_that_goes_back_is_noticed():
    with pytest.raises(AssertionError):
        judge(with_field(6, "clusterTime", Timestamp(99, 1)))
