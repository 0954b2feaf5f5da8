"""Embeddings: hugectr.SparseEmbedding, and embedding collections as far as a config can say them."""
from .layers import as_list, wiring

COMBINERS = {"sum": "sum", "mean": "mean", "average": "mean", 0: "sum", 1: "mean"}


def combiner_of(call, combiner):
    if combiner not in COMBINERS:
        call.fail(f"combiner: expected sum, mean or average, found {combiner}")
    return COMBINERS[combiner]


def sparse_embedding(call, statistics, optimizer_block):
    """The layer of a SparseEmbedding call; `optimizer_block(call)` is the block of an optimizer, or nothing."""
    name = str(call.need("sparse_embedding_name"))
    layer = wiring(str(call.need("embedding_type")), [str(call.need("bottom_name"))], [name])
    tables = {"embedding_vec_size": call.need("embedding_vec_size"),
              "combiner": combiner_of(call, call.get("combiner", "sum"))}
    for key in ("workspace_size_per_gpu_in_mb", "max_vocabulary_size_per_gpu"):
        if call.get(key):
            tables[key] = call.get(key)
    if call.get("slot_size_array"):
        tables["slot_size_array"] = call.get("slot_size_array")
    hybrid = call.get("hybrid_embedding_param")
    if hybrid and layer["type"] == "HybridSparseEmbedding":
        tables["num_iterations_statistics"] = statistics
        for key in hybrid.values:
            value = hybrid.get(key)
            tables[key] = str(value) if isinstance(value, str) else value
    layer["sparse_embedding_hparam"] = tables
    own = optimizer_block(call)
    if own:
        layer["optimizer"] = own
    call.finish()
    return layer


class Lookup:
    """One sparse input that looks up one table."""
    def __init__(self, call, table, bottom, combiner):
        self.table, self.bottom, self.combiner = table, bottom, combiner_of(call, combiner)
        self.width, self.rows = table.need("ev_size"), table.need("max_vocabulary_size")
        if self.rows is None or self.rows < 1:
            table.fail("a dynamic table (max_vocabulary_size -1) has no translation; give the number of its rows")
        for key in ("opt_params_or_empty", "init_param_or_empty"):
            if table.get(key) is not None:
                table.fail(f"{key}: optimizers and initializers of single tables have no translation")


def lookups_of(collection):
    """[(tops, [Lookup])] of a collection, and the call of each."""
    found = []
    for call in collection.lookups:
        tables, bottoms = call.values.get("table_config"), call.need("bottom_name")
        call.ignore("table_config")
        tables = list(tables) if isinstance(tables, (list, tuple)) else [tables]
        bottoms, combiners = as_list(bottoms), call.get("combiner", "sum")
        combiners = as_list(combiners) if isinstance(combiners, (list, tuple)) else [combiners] * len(bottoms)
        if not len(tables) == len(bottoms) == len(combiners):
            call.fail(f"expected as many tables as bottoms and combiners, found {len(tables)}, {len(bottoms)} and "
                      f"{len(combiners)}")
        top = str(call.need("top_name"))
        call.finish()
        found.append((call, top, [Lookup(call, *each) for each in zip(tables, bottoms, combiners)]))
    if not found:
        collection.fail("expected an embedding_lookup, found none")
    return found


def collection_layers(collection, inputs):
    """(layers, vectors): the layers of an EmbeddingCollectionConfig, and for each top how many vectors of what width
    it holds. `inputs`: the sparse inputs of the Data layer, which are joined where one layer looks up all of them."""
    layers, vectors = [], {}
    tables_seen = {}
    for call, top, lookups in lookups_of(collection):
        for table in {id(lookup.table) for lookup in lookups}:
            if tables_seen.setdefault(table, top) != top:
                call.fail("a table that two tops share has no translation; look it up under one top")
        alike = len({(lookup.width, lookup.combiner) for lookup in lookups}) == 1
        if not alike and len({id(lookup.table) for lookup in lookups}) < len(lookups):
            call.fail("lookups of different widths or combiners that share a table have no translation")
        groups = [lookups] if alike else [[lookup] for lookup in lookups]
        parts = []
        for i, group in enumerate(groups):
            name = f"{top}.vectors" if len(groups) == 1 else f"{top}.vectors{i}"
            bottom = inputs.join([lookup.bottom for lookup in group], name + ".keys", call)
            slots = inputs.slots(bottom)
            if slots != len(group):
                call.fail(f"expected sparse inputs of one slot each, found {slots} slots in {len(group)} inputs")
            layer = wiring("HybridSparseEmbedding", [bottom], [name])
            tables = list(dict.fromkeys(id(lookup.table) for lookup in group))
            layer["sparse_embedding_hparam"] = {"slot_size_array": [lookup.rows for lookup in group],
                                                "embedding_vec_size": group[0].width, "combiner": group[0].combiner}
            if len(tables) < len(group):
                layer["sparse_embedding_hparam"]["slot_tables"] = [tables.index(id(lookup.table)) for lookup in group]
            layers.append(layer)
            flat = top if len(groups) == 1 else f"{top}.{i}"
            parts.append(dict(wiring("Reshape", [name], [flat]), leading_dim=len(group) * group[0].width))
        layers += parts
        if len(groups) > 1:
            layers.append(wiring("Concat", [part["top"] for part in parts], [top]))
        else:
            vectors[top] = (len(lookups), lookups[0].width)
    collection.ignore("use_exclusive_keys", "comm_strategy")
    return layers, vectors
