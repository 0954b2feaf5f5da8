"""From Yambda's log of events (yandex/yambda, multi_event.parquet) to the samples of MLPerf's dlrmv4, in order of time and in bounded
memory. What is done when it is interrupted is not done again. Wants polars and NumPy (docs/histories.md).

    python3 yambda.py prepare multi_event.parquet --artists artist_item_mapping.parquet --albums album_item_mapping.parquet --out work
    python3 yambda.py generate --out log        # a small log like it, whose best AUC is known
"""
import argparse
import json
import os
import shutil
from dataclasses import asdict, dataclass, field

import numpy as np
import polars as pl

from histories import check, rows_at_once, slices, write

LISTENED, LIKED, SKIPPED = KINDS = (1, 2, 4)  # bits of an action; 0 is the candidate, whose action is not known yet
LATEST_BUCKET = 2048
DENSE = ("hour_cos", "hour_sin", "weekday_cos", "weekday_sin")
HISTORY = ("item", "artist", "album", "action", "time")
# What becomes a token in front of the history: the user, then hashes of crosses of the candidate's facts.
CONTEXT = {"uid": ("uid",), "uid_artist": ("uid", "artist"), "uid_album": ("uid", "album"), "uid_hour": ("uid", "hour"),
           "item_hour": ("item", "hour"), "artist_hour": ("artist", "hour"), "uid_organic": ("uid", "organic"),
           "uid_artist_hour": ("uid", "artist", "hour")}
ROWS = {"uid": 1_000_001, "uid_artist": 100_000_000, "uid_album": 40_000_000, "uid_hour": 24_000_000, "item_hour": 40_000_000,
        "artist_hour": 32_000_000, "uid_organic": 2_000_000, "uid_artist_hour": 40_000_000}


@dataclass
class Rules:
    """What a sample is. An anchor is a listen with at least min_past events of its user before it in the log, its label whether `played` %
    were heard. Its history has the latest per_kind of each of listened, liked and skipped among the latest `among` events, if they are
    earlier than the anchor. Times count from `start` in windows of a `day`; train: those of training, [begin, end); test: the one to
    evaluate. rows: of the tables of tokens."""
    per_kind: int = 1362
    among: int = 20_000
    min_past: int = 4086
    played: int = 50
    day: int = 86_400
    start: int = 0
    train: tuple = (0, 299)
    test: int = 299
    rows: dict = field(default_factory=lambda: dict(ROWS))

    @property
    def max_len(self):  # a history and its candidate
        return 3 * self.per_kind + 1


class Events:
    """Events of some users, those of each together in order of time, and how many of each kind are before an event."""

    def __init__(self, frame, rules):
        frame = frame.sort("uid", "timestamp", maintain_order=True)
        listens = pl.col("event_type").cast(pl.String) == "listen"
        heard = pl.col("played_ratio_pct").fill_null(0) >= rules.played
        action = (pl.when(listens & heard).then(LISTENED).when(listens).then(SKIPPED)
                  .when(pl.col("event_type").cast(pl.String) == "like").then(LIKED).otherwise(0))
        frame = frame.with_columns(action=action.cast(pl.Int8), listens=listens)
        column = {name: frame[name].to_numpy() for name in ("item", "artist", "album", "action", "listens")}
        self.uid, self.time = (frame[name].cast(pl.Int64).to_numpy() for name in ("uid", "timestamp"))
        self.organic = frame["is_organic"].cast(pl.Int64).to_numpy()
        self.item, self.artist, self.album, self.action, self.listens = column.values()
        at = np.arange(len(self.uid))
        new_user = np.diff(self.uid, prepend=-1) != 0
        self.first = np.maximum.accumulate(np.where(new_user, at, 0))
        self.same_time = np.maximum.accumulate(np.where(new_user | (np.diff(self.time, prepend=-1) != 0), at, 0))  # the first of them
        self.of_kind = {kind: np.flatnonzero(self.action == kind) for kind in KINDS}
        self.before = {kind: np.concatenate([[0], np.cumsum(self.action == kind)]) for kind in KINDS}

    def anchors(self, rules):
        """Their places, in order of time, and of each kind which of its events [begin, end) are in an anchor's history."""
        window = (self.time - rules.start) // rules.day
        wanted = ((window >= rules.train[0]) & (window < rules.train[1])) | (window == rules.test)
        at = np.flatnonzero(self.listens & wanted & (np.arange(len(self.uid)) - self.first >= rules.min_past))
        at = at[np.argsort(self.time[at], kind="stable")]
        return at, window[at], self.spans(at, rules)

    def spans(self, at, rules):
        low, high = np.maximum(self.first[at], at - rules.among), self.same_time[at]
        spans = {}
        for kind, before in self.before.items():
            end = before[high]
            spans[kind] = np.minimum(end, np.maximum(before[low], end - rules.per_kind)), end
        return spans

    def places(self, at, spans):
        """The events of the histories, each history in order and its candidate last: places in the log, and where each list ends."""
        lengths = 1 + sum(end - begin for begin, end in spans.values())
        ends = np.cumsum(lengths)
        places = np.empty(ends[-1] if len(ends) else 0, np.int64)
        places[ends - 1] = at
        for kind, (begin, end) in spans.items():
            row = np.repeat(np.arange(len(at)), end - begin)
            event = self.of_kind[kind][np.arange(len(row)) + np.repeat(end - np.cumsum(end - begin), end - begin)]
            rank = sum(np.maximum(self.before[other][event] - spans[other][0][row], 0) for other in KINDS)
            places[(ends - lengths)[row] + rank] = event
        return places, ends - lengths, ends

    def samples(self, at, spans, rules):
        places, starts, ends = self.places(at, spans)
        now = self.time[np.where(ends - starts > 1, places[ends - 2], at)]  # of the last event, as in the reference
        ago = np.maximum(np.repeat(now, ends - starts) - self.time[places], 0)
        bucket = np.minimum(np.sqrt(ago / 60).astype(np.int64), LATEST_BUCKET).astype(np.int16)
        since = self.time[at] - rules.start
        facts = {"uid": self.uid[at], "item": self.item[at], "artist": self.artist[at], "album": self.album[at],
                 "organic": self.organic[at], "hour": since // 3600 % 24}
        columns = {"timestamp": self.time[at], "label": (self.action[at] == LISTENED).astype(np.float32)}
        for name, turn in (("hour", since / 86_400), ("weekday", since // 86_400 / 7)):
            columns[name + "_cos"] = np.cos(2 * np.pi * turn).astype(np.float32)
            columns[name + "_sin"] = np.sin(2 * np.pi * turn).astype(np.float32)
        for seed, (name, parts) in enumerate(CONTEXT.items()):
            hashed = facts["uid"].astype(np.uint64) if seed == 0 else xxh64([facts[part] for part in parts], seed)
            columns[name] = (hashed % np.uint64(rules.rows[name])).astype(np.uint32)
        lists = {"item": self.item[places], "artist": self.artist[places], "album": self.album[places],
                 "action": np.where(places == np.repeat(at, ends - starts), 0, self.action[places]).astype(np.int8), "time": bucket}
        frame = pl.DataFrame({**columns, "start": starts, "end": ends})
        return frame.select(*columns, *(slices(pl.Series(lists[name]), pl.col("start"), pl.col("end")).alias(name + "_history")
                                        for name in HISTORY))


def xxh64(parts, seed):
    """XXH64 of integers, one after the other, as little-endian words of 64 bits; less than four of them."""
    p1, p2, p3, p4, p5 = (np.uint64(p) for p in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                                                 0x27D4EB2F165667C5))

    def turned(x, bits):
        return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))

    with np.errstate(over="ignore"):
        h = np.full(len(parts[0]), np.uint64(seed) + p5 + np.uint64(8 * len(parts)))
        for part in parts:
            h = turned(h ^ (turned(part.astype(np.uint64) * p2, 31) * p1), 27) * p1 + p4
        h = (h ^ (h >> np.uint64(33))) * p2
        h = (h ^ (h >> np.uint64(29))) * p3
        return h ^ (h >> np.uint64(32))


def user_ranges(log, events_at_once):
    """[first, last] of users who have about so many events together."""
    counts = log.group_by("uid").agg(events=pl.len()).sort("uid").collect()
    part = ((pl.col("events").cum_sum() - 1) // events_at_once).alias("part")
    return counts.group_by(part).agg(first=pl.col("uid").min(), last=pl.col("uid").max()).sort("first").select("first", "last").rows()


def facts_of(path, name):
    """item -> the least of its artists or albums; 0 is none."""
    return pl.read_parquet(path, columns=["item_id", name + "_id"]).group_by("item_id").agg(pl.col(name + "_id").min().alias(name))


def group_rows(at_once):
    """Of a piece, many of which are read at a time."""
    return max(1, at_once // 16)


def write_pieces(events, rules, folder):
    """A file for each window, in order of time, in small groups of rows: they are read a few at a time."""
    at, window, spans = events.anchors(rules)
    at_once = rows_at_once(rules.max_len)

    def chunks(rows):
        for begin in range(0, len(rows), at_once):
            some = rows[begin:begin + at_once]
            yield events.samples(at[some], {kind: (b[some], e[some]) for kind, (b, e) in spans.items()}, rules)

    for number in np.unique(window):
        write(os.path.join(folder, f"{number:03}.parquet"), chunks(np.flatnonzero(window == number)), group_rows(at_once))


def merge(pieces, path, at_once):
    """The rows of some files, which are in order of time, in that order; those of a time in the order of the files."""
    write(path, merged(pieces, at_once), at_once)


def merged(pieces, at_once):
    scans = [pl.scan_parquet(piece) for piece in pieces]
    left = [scan.select(pl.len()).collect().item() for scan in scans]  # rows that are not read yet
    read, held, ready = [0] * len(scans), [scan.head(0).collect() for scan in scans], []
    while any(left) or any(rows.height for rows in held):
        # A piece may go on with the latest time of what is held of it: rows before the earliest such time are all here.
        ends = [rows["timestamp"][-1] if rows.height else -1 for rows, more in zip(held, left) if more]
        bound = min(ends, default=None)
        some = [rows if bound is None else rows.filter(pl.col("timestamp") < bound) for rows in held]
        held = [rows[taken.height:] for rows, taken in zip(held, some)]
        ready.append(pl.concat(some).sort("timestamp", maintain_order=True))
        for i, rows in enumerate(held):
            if left[i] and (rows.height == 0 or rows["timestamp"][-1] == bound):
                group = scans[i].slice(read[i], group_rows(at_once)).collect()
                held[i] = pl.concat([rows, group])
                read[i] += group.height
                left[i] -= group.height
        if sum(rows.height for rows in ready) >= at_once or not any(left):
            yield pl.concat(ready)
            ready = []
    if ready:
        yield pl.concat(ready)


def prepare(paths, artists, albums, rules, out, events_at_once=20_000_000):
    """Writes a file for each window to out/train and out/test, and yambda.json."""
    log = pl.scan_parquet(paths)
    work = os.path.join(out, ".pieces")
    for folder in ("train", "test", ".pieces"):
        os.makedirs(os.path.join(out, folder), exist_ok=True)
    how = {**asdict(rules), "train": list(rules.train), "files": [os.path.abspath(path) for path in paths], "events_at_once": events_at_once}
    begun = os.path.join(out, "rules.json")
    if os.path.exists(begun):
        with open(begun, encoding="utf-8") as file:
            if json.load(file) != how:
                raise ValueError(f"{begun}: expected what this run was told, as samples are there; found other rules or files")
    with open(begun, "w", encoding="utf-8") as file:
        json.dump(how, file, indent=1)
    facts = {"artist": facts_of(artists, "artist"), "album": facts_of(albums, "album")}
    folders = []
    for first, last in user_ranges(log, events_at_once):
        folders.append(os.path.join(work, f"{first:010}"))
        if os.path.exists(folders[-1]):
            continue
        frame = log.filter(pl.col("uid").is_between(first, last)).collect()
        check(frame, ["uid", "timestamp", "item_id", "is_organic", "event_type"])
        for name, of_item in facts.items():
            frame = frame.join(of_item, on="item_id", how="left", maintain_order="left").with_columns(pl.col(name).fill_null(0))
        shutil.rmtree(folders[-1] + ".tmp", ignore_errors=True)
        os.makedirs(folders[-1] + ".tmp")
        write_pieces(Events(frame.rename({"item_id": "item"}), rules), rules, folders[-1] + ".tmp")
        os.replace(folders[-1] + ".tmp", folders[-1])
    at_once = rows_at_once(rules.max_len)
    for part, windows in (("train", range(*rules.train)), ("test", [rules.test])):
        for window in windows:
            path = os.path.join(out, part, f"{window:03}.parquet")
            pieces = [piece for piece in (os.path.join(folder, f"{window:03}.parquet") for folder in folders) if os.path.exists(piece)]
            if pieces and not os.path.exists(path):
                merge(pieces, path, at_once)
            for piece in pieces:
                os.remove(piece)
    return finish(rules, out, work, how)


def finish(rules, out, work, how):
    parts = {}
    for part in ("train", "test"):
        if not os.listdir(os.path.join(out, part)):
            raise ValueError(f"{out}: expected samples of {part}, found none: no listen of these windows has {rules.min_past} events before it")
        labels = pl.scan_parquet(os.path.join(out, part, "*.parquet")).select(n=pl.len(), mean=pl.col("label").mean()).collect()
        parts[part] = {"source": part, "samples": labels["n"][0], "label_mean": labels["mean"][0]}
    shutil.rmtree(work)
    columns = {"labels": ["label"], "conts": list(DENSE), "cats": [*CONTEXT, *(name + "_history" for name in HISTORY)]}
    with open(os.path.join(out, "yambda.json"), "w", encoding="utf-8") as file:
        json.dump({"format": "Parquet", **parts, "max_len": rules.max_len, "columns": columns, "made_by": how}, file, indent=1)
    return parts


def auc(labels, scores):
    _, group, size = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(size) - (size - 1) / 2)[group]  # ties share the mean of their ranks
    ones = labels.sum()
    return (rank[labels == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(labels) - ones))


def generate(out, users=800, events=600, days=10, seed=1, recent=5, artists=200):
    """A log as Yambda's, and truth.parquet with the probability that each listen is heard: sigmoid(q[item] + 1.5 or - 1.5, as one of the
    last `recent` listens that were heard was of the same artist, or none). So no scores have a better AUC in expectation."""
    draw = np.random.default_rng(seed)
    quality = draw.normal(0, 0.7, 5 * artists)
    heard_artists = np.full((users, recent), -1)
    last, was_heard = np.zeros(users, np.int64), np.zeros(users, bool)
    gap = days * 86_400 / 5 / events - 1
    time = 5 * np.cumsum(1 + draw.exponential(gap, (events, users)).astype(np.int64), axis=0)
    rows = []
    for _ in range(events):
        likes = was_heard & (draw.random(users) < 0.04)
        dislikes = ~likes & (draw.random(users) < 0.01)
        known = (heard_artists >= 0).sum(1)
        again = heard_artists[np.arange(users), (draw.random(users) * known).astype(np.int64)]  # filled from the front
        artist = np.where((known > 0) & (draw.random(users) < 0.5), again, draw.integers(0, artists, users))
        item = np.where(likes | dislikes, last, 5 * artist + draw.integers(0, 5, users))
        artist = item // 5
        match = (heard_artists == artist[:, None]).any(1)
        chance = 1 / (1 + np.exp(-quality[item] - np.where(match, 1.5, -1.5)))
        heard = draw.random(users) < chance
        listens = ~likes & ~dislikes
        rows.append((item, listens, likes, heard, chance))
        was_heard = listens & heard
        heard_artists[was_heard] = np.column_stack([artist[was_heard], heard_artists[was_heard, :-1]])
        last = item
    item, listens, likes, heard, chance = (np.stack(column).T.ravel() for column in zip(*rows))
    played = np.where(heard, draw.integers(50, 101, len(item)), draw.integers(0, 50, len(item)))
    log = pl.DataFrame({"uid": np.repeat(np.arange(1, users + 1), events), "timestamp": time.T.ravel(), "item_id": 1 + item,
                        "is_organic": draw.integers(0, 2, len(item)).astype(np.uint8), "played_ratio_pct": played.astype(np.uint16),
                        "listens": listens, "likes": likes, "probability": chance, "of_item": quality[item]})
    kind = pl.when("listens").then(pl.lit("listen")).when("likes").then(pl.lit("like")).otherwise(pl.lit("dislike"))
    log = log.filter(pl.col("timestamp") < days * 86_400).with_columns(
        pl.when("listens").then("played_ratio_pct").alias("played_ratio_pct"), track_length_seconds=pl.lit(180, pl.UInt32),
        event_type=kind)
    os.makedirs(out, exist_ok=True)
    log.select("uid", "timestamp", "item_id", "is_organic", "played_ratio_pct", "track_length_seconds", "event_type").write_parquet(
        os.path.join(out, "multi_event.parquet"))
    truth = log.filter("listens").select("uid", "timestamp", "probability", "of_item", label=(pl.col("played_ratio_pct") >= 50).cast(pl.Int8))
    truth.write_parquet(os.path.join(out, "truth.parquet"))
    ids = np.arange(5 * artists)
    for name, of_item in (("artist", ids // 5), ("album", ids // 5 * 2 + ids % 2)):
        pl.DataFrame({name + "_id": 1 + of_item, "item_id": 1 + ids}).write_parquet(os.path.join(out, f"{name}_item_mapping.parquet"))
    return truth


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("prepare", help="write samples with histories")
    default = Rules()
    make.add_argument("events", nargs="+", help="Parquet files of events")
    make.add_argument("--artists", required=True, help="Parquet file of artist_id and item_id")
    make.add_argument("--albums", required=True, help="Parquet file of album_id and item_id")
    make.add_argument("--per-kind", type=int, default=default.per_kind, help="latest events of each kind")
    make.add_argument("--among", type=int, default=default.among, help="latest events that these are looked for in")
    make.add_argument("--min-past", type=int, default=default.min_past, help="events that an anchor's user has before it")
    make.add_argument("--played", type=int, default=default.played, help="percent heard of a listen with label 1")
    make.add_argument("--day", type=int, default=default.day, help="seconds of a window")
    make.add_argument("--start", type=int, default=default.start, help="time at which window 0 begins")
    make.add_argument("--train", default="0:299", help="windows of training, begin:end")
    make.add_argument("--test", type=int, default=default.test, help="window to evaluate")
    make.add_argument("--share", type=int, default=1, help="tables of tokens have one of so many of the benchmark's rows")
    make.add_argument("--rows", action="append", default=[], metavar="NAME=N", help=f"of the table of a token: {', '.join(ROWS)}")
    make.add_argument("--events-at-once", type=int, default=20_000_000, help="in memory")
    make.add_argument("--out", required=True)
    draw = commands.add_parser("generate", help="write a log like Yambda's whose best AUC is known")
    for name, value in (("users", 800), ("events", 600), ("days", 10), ("seed", 1), ("artists", 200)):
        draw.add_argument("--" + name, type=int, default=value)
    draw.add_argument("--out", required=True)
    args = parser.parse_args()
    if args.command == "prepare":
        rows = {**{name: n // args.share for name, n in ROWS.items()}, **{name: int(n) for name, n in (one.split("=") for one in args.rows)}}
        rules = Rules(args.per_kind, args.among, args.min_past, args.played, args.day, args.start,
                      tuple(int(n) for n in args.train.split(":")), args.test, rows)
        for name, facts in prepare(args.events, args.artists, args.albums, rules, args.out, args.events_at_once).items():
            print(f"{name}: {facts['samples']} samples, label 1 in {facts['label_mean']:.4f}")
    else:
        truth = generate(args.out, args.users, args.events, args.days, args.seed, artists=args.artists)
        last_day = truth.filter(pl.col("timestamp") >= (args.days - 1) * 86_400)
        best, of_item = (auc(last_day["label"].to_numpy(), last_day[name].to_numpy()) for name in ("probability", "of_item"))
        print(f"listens of the last day: {last_day.height}, best AUC {best:.4f}, of the item alone {of_item:.4f}")


if __name__ == "__main__":
    main()
