"""Which of a region's snapshots is the data set's: a pure function."""


class Refused(ValueError):
    """None can be taken, and none made, in words."""


def choose(rows, made_from, made_id):
    """The snapshot that is complete or on its way, or None; rows: see volume_calls.

    Refused for several, for one of the same name that was made from something else, and for one that this run has
    started (made_id) and that AWS could not finish. Those of earlier runs that failed are nobody's choice.
    """
    failed = [row for row in rows if row["state"] == "error" and row["id"] == made_id]
    if failed:
        raise Refused(f"{made_id} ended in an error, AWS says: {failed[0]['message'] or 'nothing'}; run it again")
    there = [row for row in rows if row["state"] != "error"]
    if len(there) > 1:
        listed = ", ".join(f"{row['id']} ({row['state']})" for row in there)
        raise Refused(f"there must be one, got {listed}; delete all but one")
    if there and there[0]["tags"].get("made_from", made_from) != made_from:
        raise Refused(
            f"{there[0]['id']} has the same name and was made from {there[0]['tags']['made_from']}, not from "
            f"{made_from}; choose another data_set_name, or delete it"
        )
    return there[0] if there else None
