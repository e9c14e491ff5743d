"""Faults that are put into a recorded history, each of which the judge must name.

A fault takes the transactions and the lists of a history and changes them where no order of events could hide it; one that finds
no place for it gives None.
"""

LATE = 1 << 62


def appends(one):
    return [(key, value) for kind, key, value in one["actions"] if kind == "append"]


def written_by(recorded):
    """Who has appended each value."""
    return {value: one for one in recorded for _, value in appends(one)}


def committed(recorded):
    return [one for one in recorded if one["outcome"] == "committed"]


def reader(begun, *reads):
    """A client of its own that has read these lists."""
    actions = [["read", key, values] for key, values in reads]
    return {"client": "fault", "begun": begun, "ended": begun + 1, "outcome": "committed", "actions": actions}


def lose_a_suffix(recorded, lists):
    """A crash has taken the end of a list, of which a part was acknowledged."""
    for one in committed(recorded):
        for key, value in appends(one):
            lists[key] = lists[key][: lists[key].index(value)]
            return recorded, lists
    return None


def lose_half(recorded, lists):
    """Of a transaction with two lists one has its value and the other has not."""
    for one in committed(recorded):
        if len({key for key, _ in appends(one)}) > 1:
            key, value = appends(one)[0]
            lists[key] = [other for other in lists[key] if other != value]
            return recorded, lists
    return None


def lose_half_of_an_unknown(recorded, lists):
    """As `lose_half`, of a transaction whose outcome nobody was told."""
    for one in committed(recorded):
        if len({key for key, _ in appends(one)}) > 1:
            one["outcome"] = "unknown"
            key, value = appends(one)[0]
            lists[key] = [other for other in lists[key] if other != value]
            return recorded, lists
    return None


def write_twice(recorded, lists):
    """A write that was sent again was done again."""
    for key, values in lists.items():
        lists[key] = [*values, values[-1]]
        return recorded, lists
    return None


def keep_what_was_aborted(recorded, lists):
    for one in recorded:
        if one["outcome"] == "given up" and appends(one):
            key, value = appends(one)[0]
            lists.setdefault(key, []).append(value)
            return recorded, lists
    return None


def see_what_was_aborted(recorded, lists):
    for one in recorded:
        if one["outcome"] == "given up" and appends(one):
            key, value = appends(one)[0]
            return [*recorded, reader(one["ended"], (key, [*lists.get(key, []), value]))], lists
    return None


def see_the_past(recorded, lists):
    """A read that begins behind an acknowledged write does not see it."""
    for one in committed(recorded):
        for key, value in appends(one):
            return [*recorded, reader(one["ended"] + 1, (key, lists[key][: lists[key].index(value)]))], lists
    return None


def go_back(recorded, lists):
    """A reader sees a value, and behind it another one does not. Nobody knows when the value was written."""
    for key, values in lists.items():
        for one in recorded:
            if (key, values[-1]) in appends(one):
                one["outcome"], one["ended"] = "unknown", LATE * 2
                return [*recorded, reader(LATE, (key, values)), reader(LATE + 2, (key, values[:-1]))], lists
    return None


def see_a_fraction(recorded, lists):
    """Of a transaction with two lists a reader sees one value and not the other, while the transaction may be under way."""
    for one in committed(recorded):
        of_lists = dict(appends(one))
        if len(of_lists) > 1:
            (first, seen), (second, missed) = list(of_lists.items())[:2]
            missed = min(lists[second].index(value) for key, value in appends(one) if key == second)
            torn = reader(one["begun"], (first, lists[first][: lists[first].index(seen) + 1]), (second, lists[second][:missed]))
            torn["ended"] = LATE
            return [*recorded, torn], lists
    return None


def lose_an_update(recorded, lists):
    """A transaction appends to a list that it has read before another value came."""
    writers = written_by(recorded)
    for key, values in lists.items():
        for before, value in zip(values, values[1:]):
            one = writers[value]
            if one["outcome"] == "committed" and writers[before] is not one and appends(one)[0] == (key, value):
                one["actions"].insert(0, ["read", key, values[: values.index(before)]])
                return recorded, lists
    return None


# Each with what the judge must say of it.
FAULTS = {
    lose_a_suffix: "is lost",
    lose_half: "is lost",
    lose_half_of_an_unknown: "is lost while others of its transaction are there",
    write_twice: "is there 2 times",
    keep_what_was_aborted: "is there and was given up",
    see_what_was_aborted: "which was given up",
    see_the_past: "a cycle, ",
    go_back: "a cycle, ",
    see_a_fraction: "a cycle, ",
    lose_an_update: "a cycle, ",
}
