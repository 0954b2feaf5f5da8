"""The schema of csv_prep for the columns of a table, as the parameters of an estimator (estimator.py) say."""
from .frames import DATE

_CONSTANT = "constant"  # the category of a table without categories: models need an embedding


def schema_of(frame, label, categorical, transforms, columns):
    """A schema of lines with the label, the columns of `frame` and, if none of them is a category, a constant. label: the
    schema's block, without its column; the others: the parameters. Raises ValueError and TypeError."""
    given = {} if columns is None else columns
    unknown = [key for key in given if key not in ("dense", "categorical")]
    if unknown:
        raise ValueError(f"columns: expected \"dense\" and \"categorical\", found {unknown[0]!r}")
    used = set()
    blocks = {key: [_block(block, frame, used, key == "categorical") for block in given.get(key, ())]
              for key in ("dense", "categorical")}
    chosen = _columns_of(categorical, frame, "categorical")
    by_column = transforms if isinstance(transforms, dict) else {}
    of_column = dict(zip(_columns_of(list(by_column), frame, "transforms"), by_column.values()))
    default = "standardize" if isinstance(transforms, dict) else transforms
    dense, categories = [], []
    for i, column in enumerate(frame.columns):
        if i in used:
            continue
        column.expect_no_date()
        block = {"column": 1 + i, "name": column.name}
        if i in chosen or not column.is_number:
            categories.append({**block, "type": column.category_type})
        else:
            dense.append({**block, "transform": of_column.get(i, default)})
    dense += blocks["dense"]
    categories += blocks["categorical"]
    if not categories:
        name = _CONSTANT
        while name in frame.labels:
            name += "_"
        categories = [{"column": 1 + len(frame.columns), "name": name, "type": "text"}]
    return {"label": {"column": 0, **label}, "dense": dense, "categorical": categories}


def _block(block, frame, used, is_category):
    """A block of a schema with places of lines for columns of X, which are added to `used`."""
    block = dict(block)
    if "column" in block:
        column, = _columns_of([block["column"]], frame, "columns")
        used.add(column)
        block.update(column=1 + column, name=block.get("name", frame.labels[column]))
        if is_category and not {"type", "buckets", "quantiles", DATE, "separator"} & block.keys():
            block["type"] = frame.columns[column].category_type
    date = block.get("date")
    if isinstance(date, dict) and isinstance(date.get("since"), dict):
        block["date"] = {**date, "since": _block(date["since"], frame, used, False)}
    if "cross" in block:
        block["cross"] = [_block(one, frame, used, True) if isinstance(one, dict) else one for one in block["cross"]]
    return block


def _columns_of(columns, frame, what):
    """Numbers of columns that are given by name or number."""
    if isinstance(columns, str):
        raise ValueError(f"{what}: expected a list of columns, found {columns!r}")
    numbers = []
    for column in () if columns is None else columns:
        if isinstance(column, str) and column in frame.labels:
            numbers.append(frame.labels.index(column))
        elif not isinstance(column, str) and 0 <= column < len(frame.columns):
            numbers.append(int(column))
        else:
            raise ValueError(f"{what}: expected columns of X ({', '.join(frame.labels)}), found {column!r}")
    return numbers
