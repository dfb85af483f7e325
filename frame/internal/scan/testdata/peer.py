"""Peer of the tests of Parquet files: writes files and what they must contain, or reads files, with pyarrow."""

import datetime as dt
import decimal
import itertools
import os
import random
import sys

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

D = decimal.Decimal
ROWS = 1000
COLUMNS = {'b':(pa.bool_(),lambda v:v%2==0),
    'i8':(pa.int8(),lambda v:v%100-50),'i16':(pa.int16(),lambda v:v-99),
    'i32':(pa.int32(),lambda v:v*1000-7),
    'i64':(pa.int64(),lambda v:v*10**12),
    'u8':(pa.uint8(),lambda v:v%256),
    'u16':(pa.uint16(),lambda v:v),'u32':(pa.uint32(),lambda v:2**32-1-v),
    'u64':(pa.uint64(),lambda v:2**64-1-v),
    'f32':(pa.float32(),lambda v:v/4),'f64':(pa.float64(),lambda v:v/3),
's':(pa.string(),lambda v:'ü'*(v%30)+str(v)),
    'ls':(pa.large_string(),lambda v:str(v)),
    'bin':(pa.binary(),lambda v:bytes([v%256])*(v%5)),'fsb':(pa.binary(5),lambda v:b'%05d'%v),
'd':(pa.date32(),lambda v:dt.date(2000,1,1)+dt.timedelta(v)),
    't32':(pa.time32('ms'),lambda v:dt.time(1,2,v%60)),
    't64':(pa.time64('us'),lambda v:dt.time(1,2,v%60)),
'tms':(pa.timestamp('ms'),lambda v:dt.datetime(2020,1,1)+dt.timedelta(seconds=v)),
    'tus':(pa.timestamp('us','UTC'),lambda v:dt.datetime(2020,1,1)+dt.timedelta(seconds=v)),
    'tns':(pa.timestamp('ns','Europe/Berlin'),lambda v:dt.datetime(2020,1,1)+dt.timedelta(seconds=v)),
'd7':(pa.decimal128(7,2),lambda v:D(v)/4),
    'd15':(pa.decimal128(15,2),lambda v:D(-v)/4),
    'd38':(pa.decimal128(38,10),lambda v:D(v)-5),'dict':(pa.dictionary(pa.int32(),pa.string()),None)}
ENCODINGS = {
    "i32": "DELTA_BINARY_PACKED", "i64": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY",
    "ls": "DELTA_LENGTH_BYTE_ARRAY", "f32": "BYTE_STREAM_SPLIT", "f64": "BYTE_STREAM_SPLIT", "b": "RLE",
    "fsb": "BYTE_STREAM_SPLIT",
}


def column(kind, value, nulls, distinct):
    rows = [None if random.random() < nulls else value(random.randrange(distinct)) for _ in range(ROWS)]
    return pa.array(rows, kind)


def table(nulls, distinct):
    out = {}
    for name, (kind, value) in COLUMNS.items():
        if value is None:
            out[name] = column(pa.string(), str, nulls, distinct).dictionary_encode()
        else:
            out[name] = column(kind, value, nulls, distinct)
    return pa.table(out)


def save(t, path):
    """Writes what a reader must find: dictionaries and large texts are texts."""
    for i, f in enumerate(t.schema):
        if pa.types.is_dictionary(f.type) or pa.types.is_large_string(f.type):
            t = t.set_column(i, f.name, t[f.name].cast(pa.string()))
    with ipc.new_file(path, t.schema.remove_metadata()) as w:
        w.write_table(t.combine_chunks())


def write(folder):
    random.seed(1)
    for nulls, distinct in itertools.product([0, 0.3, 1], [1, 1000]):
        t = table(nulls, distinct)
        for codec, version, dictionary in itertools.product(["snappy", "zstd", "gzip", "lz4", "none"], ["1.0", "2.0"],
                                                            [True, False]):
            name = os.path.join(folder, f"{nulls}-{distinct}-{codec}-{version}-{dictionary}")
            pq.write_table(t, name + ".parquet", compression=codec, data_page_version=version,
                           use_dictionary=dictionary, row_group_size=400, data_page_size=2000)
            save(t, name + ".arrow")
        name = os.path.join(folder, f"{nulls}-{distinct}-encodings")
        pq.write_table(t, name + ".parquet", use_dictionary=False, column_encoding=ENCODINGS, data_page_version="2.0",
                       data_page_size=3000, write_page_checksum=True)
        save(t, name + ".arrow")
        name = os.path.join(folder, f"{nulls}-{distinct}-decimals")
        few = t.select(["d7", "d15", "d38"])
        pq.write_table(few, name + ".parquet", store_decimal_as_integer=True)
        save(few, name + ".arrow")


def nested_value(kind, depth=0):
    """Returns a random value of a type: nulls, empty lists and lists of several pages among them."""
    if random.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {f.name: nested_value(f.type) if f.nullable else random.randrange(9) for f in kind}
    if pa.types.is_map(kind):
        return [(f"k{i}", nested_value(kind.item_type)) for i in range(random.randrange(4))]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        size = 900 if depth == 0 and random.random() < 0.01 else random.randrange(4)
        return [nested_value(kind.value_type, depth + 1) for _ in range(size)]
    if pa.types.is_string(kind):
        return "x" * random.randrange(20)
    if pa.types.is_boolean(kind):
        return random.random() < 0.5
    if pa.types.is_decimal(kind):
        return D(random.randrange(1000)) / 4
    return random.randrange(1000)


NESTED = {
    "flat": pa.int64(),
    "l": pa.list_(pa.field("element", pa.int32())),
    "ls": pa.list_(pa.field("element", pa.string())),
    "lb": pa.list_(pa.field("element", pa.bool_())),
    "ll": pa.list_(pa.field("element", pa.list_(pa.field("element", pa.decimal128(9, 2))))),
    "s": pa.struct([("a", pa.int64()), ("b", pa.string()), pa.field("c", pa.int8(), nullable=False)]),
    "sl": pa.struct([("a", pa.list_(pa.field("element", pa.float64()))), ("b", pa.int16())]),
    "lsl": pa.list_(pa.field("element", pa.struct([("x", pa.list_(pa.field("element", pa.string()))),
                                                    ("y", pa.struct([("z", pa.int32())]))]))),
    "m": pa.map_(pa.string(), pa.int64()),
    "mm": pa.map_(pa.string(), pa.list_(pa.field("element", pa.string()))),
    "after": pa.string(),
}


def nested(folder):
    random.seed(2)
    for rows in [1, 200]:
        t = pa.table({name: pa.array([nested_value(kind) for _ in range(rows)], kind)
                      for name, kind in NESTED.items()})
        # write() has all combinations.
        for codec, version, dictionary in [("snappy", "1.0", True), ("zstd", "2.0", True), ("none", "1.0", False),
                                           ("snappy", "2.0", False)]:
            name = os.path.join(folder, f"{rows}-{codec}-{version}-{dictionary}")
            pq.write_table(t, name + ".parquet", compression=codec, data_page_version=version,
                           use_dictionary=dictionary, row_group_size=80, data_page_size=2000)
            save(t, name + ".arrow")


def brotli(folder):
    pq.write_table(pa.table({"good": [1, 2], "bad": ["x", "y"]}), os.path.join(folder, "brotli.parquet"),
                   compression={"good": "snappy", "bad": "brotli"})


def json(folder):
    import pyarrow.json

    save(pyarrow.json.read_json(os.path.join(folder, "x.ndjson")), os.path.join(folder, "x.arrow"))


def read(folder):
    for name in sorted(os.listdir(folder)):
        if name.endswith(".parquet"):
            save(pq.read_table(os.path.join(folder, name)), os.path.join(folder, name[:-8] + ".arrow"))


{"write": write, "read": read, "nested": nested, "brotli": brotli, "json": json}[sys.argv[1]](sys.argv[2])
