"""Dask partitions on GPUs as frames of Go programs, and back: CuPy arrays, or cuDF if it is installed.

    import millstream.device

    millstream.device.from_dask(client, parts, name="points")   # Go: frame.Open(ctx, c, "points", frame.Device)
    parts = millstream.device.to_dask(client, "labels")         # Go: f.Publish(ctx, "labels", false)

A partition is a dict of columns, or a cuDF DataFrame. A column is a one-dimensional array with
__cuda_array_interface__, a pair (values, valid) of such arrays if rows are null, or for text a dict with the arrays
"offsets", "bytes" and, if rows are null, "valid". The data stays on the device.

Only the client needs this package: its functions are sent to the workers with their code. Workers need CuPy and
pyarrow.
"""

__all__ = ["from_dask", "from_device", "to_dask", "to_device"]

VERSION = 1


def _arrays(x):
    """Return the library with the functions of an array: CuPy, or numpy for arrays in host memory."""
    if hasattr(x, "__cuda_array_interface__"):
        import cupy

        return cupy
    import numpy

    return numpy


def _column(name, x, rows):
    xp = _arrays(x)
    x = xp.ascontiguousarray(xp.asarray(x))
    if x.ndim != 1:
        raise TypeError(f"column {name!r} has {x.ndim} dimensions, want 1")
    if rows is not None and len(x) != rows:
        raise ValueError(f"column {name!r} has {len(x)} rows, the first column has {rows}")
    return xp, x


def _bits(xp, flags):
    return xp.packbits(flags.astype("bool"), bitorder="little")


def _cudf_column(series):
    """Return a cuDF column as arrays, and its Arrow type if the arrays do not determine it."""
    import pyarrow

    kind = getattr(series.dtype, "kind", "O")
    valid = series.notnull().values if series.null_count else None
    if kind == "M" or kind == "m":
        unit = str(series.dtype).partition("[")[2].rstrip("]")
        arrow = pyarrow.timestamp(unit) if kind == "M" else pyarrow.duration(unit)
        values = series.astype("int64").fillna(0).values
    elif kind in "biuf":
        arrow, values = None, series.fillna(0).values
    else:
        raise TypeError(f"column {series.name!r} has type {series.dtype}; supported are numbers, booleans and times")
    return (values if valid is None else (values, valid)), arrow


def to_device(part, types=None):
    """Return a partition in the form of Go programs: a flat dict of arrays in Arrow layout, and their schema.

    types are the pyarrow types of columns that the arrays do not determine: times are int64.
    """
    import pyarrow

    if isinstance(part, dict) and "millstream.frame" in part:
        return part
    types = dict(types or {})
    columns = {}
    if type(part).__module__.partition(".")[0] == "cudf":
        for name in part.columns:
            columns[str(name)], arrow = _cudf_column(part[name])
            if arrow is not None:
                types.setdefault(str(name), arrow)
    elif isinstance(part, dict):
        columns = part
    else:
        raise TypeError(f"a partition is a {type(part).__name__}, want a dict of arrays or a cuDF DataFrame")
    out, fields, rows = {}, [], None
    for i, (name, x) in enumerate(columns.items()):
        valid = None
        if isinstance(x, dict):
            xp, offsets = _column(name, x["offsets"], None if rows is None else rows + 1)
            text = _column(name, x["bytes"], None)[1]
            out[f"offsets.{i}"], out[f"values.{i}"] = offsets.astype("int32", copy=False), text.view("uint8")
            rows, valid, arrow = len(offsets) - 1, x.get("valid"), types.get(name, pyarrow.string())
        else:
            if isinstance(x, tuple):
                x, valid = x
            xp, values = _column(name, x, rows)
            rows = len(values)
            if values.dtype.kind == "b":
                out[f"values.{i}"], arrow = _bits(xp, values), pyarrow.bool_()
            elif values.dtype.kind in "iuf":
                out[f"values.{i}"], arrow = values, pyarrow.from_numpy_dtype(values.dtype)
            else:
                raise TypeError(f"column {name!r} has type {values.dtype}; supported are numbers and booleans")
            arrow = types.get(name, arrow)
        if valid is not None:
            out[f"validity.{i}"] = _bits(xp, _column(name, valid, rows)[1])
        fields.append(pyarrow.field(str(name), arrow))
    sink = pyarrow.BufferOutputStream()
    pyarrow.ipc.new_stream(sink, pyarrow.schema(fields)).close()
    return {"millstream.frame": VERSION, "rows": rows or 0, "schema": sink.getvalue().to_pybytes(), **out}


def from_device(part, kind="cupy"):
    """Return a partition of a Go frame as a dict of columns, see the module; with kind "cudf" as a DataFrame."""
    import pyarrow

    version = part.get("millstream.frame")
    if version != VERSION:
        raise ValueError(f"device batch has version {version}, this package supports {VERSION}")
    rows, schema = part["rows"], pyarrow.ipc.open_stream(part["schema"]).schema
    columns = {}
    for i, field in enumerate(schema):
        values = part[f"values.{i}"]
        xp = _arrays(values)

        def flags(bits):
            return xp.unpackbits(bits, bitorder="little")[:rows].astype("bool")

        bitmap = part.get(f"validity.{i}")
        valid = None if bitmap is None else flags(bitmap)
        if f"offsets.{i}" in part:
            columns[field.name] = {"offsets": part[f"offsets.{i}"], "bytes": values}
            if valid is not None:
                columns[field.name]["valid"] = valid
            continue
        if pyarrow.types.is_boolean(field.type):
            values = flags(values)
        columns[field.name] = values[:rows] if valid is None else (values[:rows], valid)
    if kind == "cupy":
        return columns
    if kind != "cudf":
        raise ValueError(f"unknown kind {kind!r}: want 'cupy' or 'cudf'")
    import cudf

    out = {}
    for field in schema:
        x = columns[field.name]
        if isinstance(x, dict):
            raise TypeError(f"column {field.name!r} is text, which cudf cannot represent here: use kind='cupy', or omit the column")
        values, valid = x if isinstance(x, tuple) else (x, None)
        series = cudf.Series(values)
        if pyarrow.types.is_timestamp(field.type) or pyarrow.types.is_duration(field.type):
            letter = "M" if pyarrow.types.is_timestamp(field.type) else "m"
            series = series.astype(f"{letter}8[{field.type.unit}]")
        out[field.name] = series if valid is None else series.where(cudf.Series(valid), None)
    return cudf.DataFrame(out)


def _portable():
    import sys

    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])


def from_dask(client, parts, name=None, override=False, types=None, **where):
    """Return futures of device frames from partitions: futures of dicts of arrays, or a Dask DataFrame of cuDF.

    With a name they are published, for frame.Open in Go programs. where are options of client.map, such as workers: the
    functions must run where CuPy is installed.
    """
    from distributed import wait

    _portable()
    if hasattr(parts, "to_delayed"):
        parts = parts.persist()
        wait(parts)
        parts = client.compute(parts.to_delayed())
    futures = client.map(to_device, list(parts), types=types, pure=False, **where)
    if name is not None:
        # Fail here, not in the reader of a published future.
        client.gather(client.map(lambda part: part["rows"], futures, pure=False, **where))
        client.publish_dataset(futures, name=name, override=override)
    return futures


def to_dask(client, frame, kind="cupy", **where):
    """Return the partitions of a published device frame, by its name, or of its futures: futures of dicts of arrays.

    With kind "cudf" they are a Dask DataFrame of cuDF.
    """
    from distributed import Future

    _portable()
    futures = client.get_dataset(frame) if isinstance(frame, str) else list(frame)
    if not futures or not all(isinstance(f, Future) for f in futures):
        raise ValueError(f"{frame!r} is not a frame: want a list of futures of device batches")
    parts = client.map(from_device, futures, kind=kind, pure=False, **where)
    if kind != "cudf":
        return parts
    import dask.dataframe

    meta = client.submit(lambda part: part.iloc[:0], parts[0], **where).result()
    return dask.dataframe.from_delayed(parts, meta=meta, verify_meta=False)
