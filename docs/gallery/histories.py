"""From a log of events to samples with histories: for each event the last events of its user before it. An event at the
same time is not before it. With polars, in bounded memory; serving makes its requests with the same code (docs/histories.md).

    python3 histories.py prepare ratings.csv.gz --user userId --item movieId --time timestamp --label 'rating >= 4' \\
        --liked --last 50 --out work/ml
    python3 histories.py request work/ml --past ratings.csv.gz --ask ask.csv
"""
import argparse
import itertools
import json
import os
import sys
from dataclasses import dataclass, field

import polars as pl
from polars.io.plugins import register_io_source

KEYS_AT_ONCE = 1 << 22  # of a column of histories in memory


@dataclass
class Histories:
    """What makes a history. user, time, items: names of columns, items[0] the item, then what is known of it, as its category;
    label: a column of 0 and 1, or a condition in SQL; liked: keep those events alone of which it is true; last: at most so many, the latest;
    ids: for each column its values and their ids, from 1; 0 is the id of all others."""
    user: str
    items: list
    time: str
    label: str
    liked: bool
    last: int
    ids: dict = field(default_factory=dict)

    def samples(self, asks, events):
        """The rows of `asks` (user, items, time), as ids, each with the histories that its user's rows of `events` give:
        the features of training, and in serving those of a request, of whose users `events` has the past."""
        past = self.past(events)
        rows = self.spans(asks.with_row_index("row").sort(self.time), past).sort("row")
        return self.lists(rows, past)

    def past(self, events):
        """The events that histories are cut from, of each user in order of time."""
        check(events, [self.user, self.time, *self.items])
        if self.liked:
            events = events.filter(pl.sql_expr(self.label).cast(pl.Boolean))
        past = self.with_ids(events.select(self.user, self.time, *self.items), self.items)
        past = past.sort(self.user, self.time, maintain_order=True).with_row_index("end", 1)
        return past.with_columns(first=pl.col("end").min().over(self.user) - 1)

    def spans(self, asks, past):
        """`asks`, sorted by time, with ids and the rows of `past` that are a sample's history."""
        check(asks, [self.user, self.time, *self.items])
        rows = asks.join_asof(past.select(self.user, self.time, "end", "first"), on=self.time, by=self.user,
                              strategy="backward", allow_exact_matches=False, check_sortedness=False)
        rows = rows.with_columns(pl.col("end", "first").fill_null(0).cast(pl.Int64))
        rows = rows.with_columns(start=pl.max_horizontal("first", pl.col("end") - self.last)).drop("first")
        return self.with_ids(rows, [self.user, *self.items])

    def lists(self, rows, past):
        cut = [slices(past[name], pl.col("start"), pl.col("end")).alias(f"{name}_history") for name in self.items]
        return rows.select(*([pl.col("label")] if "label" in rows.columns else []), self.user, *self.items, *cut)

    def with_ids(self, frame, columns):
        for name in columns:
            frame = frame.join(self.ids[name], on=name, how="left", maintain_order="left")
            frame = frame.with_columns(pl.col("id").fill_null(0).cast(pl.Int32).alias(name)).drop("id")
        return frame

    def number(self, events, min_count):
        """Gives ids to the values that `events`, the training part, has at least min_count times, the most frequent first."""
        for name in (self.user, *self.items):
            counts = events[name].value_counts(name="n").filter(pl.col("n") >= min_count)
            self.ids[name] = counts.sort("n", name, descending=[True, False]).with_row_index("id", 1).select(name, "id")

    def request(self, samples):
        """The body of a request to serve: ids as they come, a history in `last` columns, -1 where it has no event."""
        rows = [[key for value in row for key in (value + [-1] * (self.last - len(value)) if isinstance(value, list) else [value])]
                for row in samples.iter_rows()]
        return {"inputs": [{"name": "keys", "shape": [len(rows), 1 + len(self.items) * (1 + self.last)], "datatype": "INT64",
                            "data": [key for row in rows for key in row]}]}

    def save(self, folder, files):
        for name, values in self.ids.items():
            values.write_parquet(os.path.join(folder, f"{name}.ids.parquet"))
        cats = [self.user, *self.items, *(f"{name}_history" for name in self.items)]
        how = {key: getattr(self, key) for key in ("user", "items", "time", "label", "liked", "last")}
        with open(os.path.join(folder, "histories.json"), "w", encoding="utf-8") as file:
            json.dump({"format": "Parquet", **files, "max_len": self.last, "columns": {"labels": ["label"], "cats": cats},
                       "rows": {name: len(values) + 1 for name, values in self.ids.items()}, "made_by": how}, file, indent=1)

    @classmethod
    def load(cls, folder):
        with open(os.path.join(folder, "histories.json"), encoding="utf-8") as file:
            made = cls(**json.load(file)["made_by"])
        made.ids = {name: pl.read_parquet(os.path.join(folder, f"{name}.ids.parquet")) for name in (made.user, *made.items)}
        return made


def prepare(events, how, out, train=0.8, val=0.1, min_count=2, seed=1):
    """Writes train, val and test.parquet, ids and histories.json to the folder `out`. Events before the quantile `train` of
    all times are for training, in an order drawn by `seed`; those before `train` + `val` are val, later ones test."""
    check(events, events.columns)
    os.makedirs(out, exist_ok=True)
    events = events.sort(how.time, maintain_order=True)
    cuts = [events[how.time][min(int(events.height * share), events.height - 1)] for share in (train, train + val)]
    parts = {"train": pl.col(how.time) < cuts[0], "val": (pl.col(how.time) >= cuts[0]) & (pl.col(how.time) < cuts[1]),
             "test": pl.col(how.time) >= cuts[1]}
    how.number(events.filter(parts["train"]), min_count)
    past = how.past(events)
    rows = how.spans(events.select(how.user, how.time, *how.items, pl.sql_expr(how.label).cast(pl.Boolean).cast(pl.Float32).alias("label")), past)
    del events
    files = {}
    for name, condition in parts.items():
        part = rows.filter(condition)
        if part.height == 0:
            raise ValueError(f"{how.time}: expected times of all three parts, found none for {name}")
        if name == "train":
            part = part.sample(fraction=1, shuffle=True, seed=seed)
        at_once = rows_at_once(how.last)
        chunks = (how.lists(part[begin:begin + at_once], past) for begin in range(0, part.height, at_once))
        write(os.path.join(out, f"{name}.parquet"), chunks, at_once)
        files[name] = {"source": f"{name}.parquet", "samples": part.height, "label_mean": part["label"].mean(),
                       "mean_length": (part["end"] - part["start"]).mean(), "empty": int((part["end"] == part["start"]).sum())}
    how.save(out, files)
    return files


def slices(values, start, end):
    """values[start:end] of each row, as lists."""
    return pl.lit(pl.Series([values])).list.slice(start, end - start)


def rows_at_once(last):
    return min(1 << 16, max(1, KEYS_AT_ONCE // last))


def write(path, chunks, group_rows):
    """Writes the frames that the iterator `chunks` makes meanwhile; a path that is there is complete."""
    first = next(chunks)
    source = register_io_source(lambda *_: itertools.chain([first], chunks), schema=first.schema)  # the writer asks for everything
    source.sink_parquet(path + ".tmp", row_group_size=group_rows, compression_level=1)
    os.replace(path + ".tmp", path)


def check(frame, columns):
    for name in columns:
        if frame[name].null_count() > 0:
            raise ValueError(f"{name}: expected a value in every row, found {frame[name].null_count()} rows without")


def read(paths, columns, join=()):
    """The columns of CSV (.gz too) or Parquet files, in the order of the files; `join`: files with facts of items or users."""
    def scan(path):
        return pl.scan_parquet(path) if str(path).endswith(".parquet") else pl.scan_csv(path, try_parse_dates=True)
    frame = pl.concat([scan(path) for path in paths])
    for path in join:
        other = scan(path)
        frame = frame.join(other, on=[name for name in other.collect_schema() if name in frame.collect_schema()], how="left",
                           maintain_order="left")
    return frame.select(columns).collect()


def columns_of(how):
    return list(dict.fromkeys([how.user, how.time, *how.items, *pl.sql_expr(how.label).meta.root_names()]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("prepare", help="write samples with histories")
    make.add_argument("events", nargs="+", help="CSV or Parquet files")
    make.add_argument("--user", required=True)
    make.add_argument("--item", required=True, help="column of the item, then those of its facts: movieId,genres")
    make.add_argument("--time", required=True, help="column of numbers or dates")
    make.add_argument("--label", required=True, help="column or condition, as 'rating >= 4'")
    make.add_argument("--liked", action="store_true", help="histories of the events with label 1 alone")
    make.add_argument("--last", type=int, default=50, help="events of a history at most")
    make.add_argument("--train", type=float, default=0.8, help="share of the events, the earliest")
    make.add_argument("--val", type=float, default=0.1, help="share after these; the rest is test")
    make.add_argument("--min-count", type=int, default=2, help="values that come less often get id 0, as those never seen")
    make.add_argument("--seed", type=int, default=1, help="of the order of training samples")
    make.add_argument("--out", required=True)
    ask = commands.add_parser("request", help="print the body of a request to serve")
    ask.add_argument("prepared", help="the folder that `prepare` wrote")
    ask.add_argument("--past", nargs="+", required=True, help="files with the events of the users")
    ask.add_argument("--ask", required=True, help="file with users, items and times; - is standard input")
    for one in (make, ask):
        one.add_argument("--join", action="append", default=[], help="file with facts of items or users, by the columns that both have")
    args = parser.parse_args()
    if args.command == "prepare":
        how = Histories(args.user, args.item.split(","), args.time, args.label, args.liked, args.last)
        files = prepare(read(args.events, columns_of(how), args.join), how, args.out, args.train, args.val, args.min_count, args.seed)
        for name, facts in files.items():
            print(f"{name}: {facts['samples']} samples, label 1 in {facts['label_mean']:.4f}, {facts['mean_length']:.1f} events "
                  f"a history, {facts['empty']} without any")
    else:
        how = Histories.load(args.prepared)
        asks = read([sys.stdin.buffer if args.ask == "-" else args.ask], [how.user, *how.items, how.time], args.join)
        events = read(args.past, columns_of(how), args.join)
        print(json.dumps(how.request(how.samples(asks, events.join(asks, on=how.user, how="semi", maintain_order="left")))))


if __name__ == "__main__":
    main()
