"""Expressions of queries of frames: values for every row, and aggregates of groups.

    col("price") * col("count") > 10
    sum(col("price")).alias("total")

An expression is a column, a constant or a function of others. Operators and methods return other expressions; nothing is
computed here. A comparison with a null is neither true nor false, as in SQL.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from dataclasses import dataclass, replace
from typing import Any

_NAMES = {
    "double": "float64",
    "float": "float32",
    "halffloat": "float16",
    "string": "utf8",
    "str": "utf8",
    "large_string": "utf8",
    "date32[day]": "date32",
    "date": "date32",
    "int": "int64",
}


def type_name(kind: Any) -> str:
    """Return the name of a type for workers: kind is a pyarrow type or a name such as "int64" or "decimal(15,2)"."""
    name = re.sub(r"\s", "", str(kind))
    name = re.sub(r"^decimal128", "decimal", name).replace("tz=", "")
    return _NAMES.get(name, name)


def _literal(value: Any) -> dict:
    if value is None or isinstance(value, (bool, int, str)):
        return {"op": "literal", "value": value}
    if isinstance(value, float):
        if math.isfinite(value):
            return {"op": "literal", "value": value}
        text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return {"op": "literal", "value": text, "type": "float64"}
    if isinstance(value, datetime.datetime):
        zone = "" if value.tzinfo is None else ",UTC"
        if value.tzinfo is not None:
            value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return {"op": "literal", "value": value.isoformat(sep=" "), "type": f"timestamp[us{zone}]"}
    if isinstance(value, datetime.date):
        return {"op": "literal", "value": value.isoformat(), "type": "date32"}
    if isinstance(value, decimal.Decimal) and value.is_finite():
        exponent = int(value.as_tuple().exponent)
        scale = -exponent if exponent < 0 else 0
        digits = len(value.as_tuple().digits) + (exponent if exponent > 0 else 0)
        precision = digits if digits > scale else scale
        return {"op": "literal", "value": format(value, "f"), "type": f"decimal({precision or 1},{scale})"}
    if hasattr(value, "item"):  # a number of numpy
        return _literal(value.item())
    raise TypeError(f"{value!r} is no constant of an expression: want None, bool, int, float, str, Decimal, date or datetime")


def _node(value: Any) -> dict:
    return value.node if isinstance(value, Expr) else _literal(value)


def _call(op: str, *args: Any, **fields: str) -> Expr:
    return Expr({"op": op, "args": [_node(a) for a in args], **fields})


class Expr:
    """A value for every row. Created by :func:`col`, :func:`lit` and operators; see the module."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: dict) -> None:
        self.node = node

    def __repr__(self) -> str:
        return f"<Expr {self.node}>"

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value: combine conditions with & | ~ in parentheses, not and, or, not")

    def alias(self, name: str) -> Expr:
        """Return the expression with a name, that of the column of the result."""
        return Expr({"op": "as", "name": name, "args": [self.node]})

    def __eq__(self, other: Any) -> Expr:  # type: ignore[override]
        return _call("==", self, other)

    def __ne__(self, other: Any) -> Expr:  # type: ignore[override]
        return _call("!=", self, other)

    def __lt__(self, other: Any) -> Expr:
        return _call("<", self, other)

    def __le__(self, other: Any) -> Expr:
        return _call("<=", self, other)

    def __gt__(self, other: Any) -> Expr:
        return _call(">", self, other)

    def __ge__(self, other: Any) -> Expr:
        return _call(">=", self, other)

    def __and__(self, other: Any) -> Expr:
        return _call("and", self, other)

    def __or__(self, other: Any) -> Expr:
        return _call("or", self, other)

    def __invert__(self) -> Expr:
        return _call("not", self)

    def __add__(self, other: Any) -> Expr:
        return _call("+", self, other)

    def __radd__(self, other: Any) -> Expr:
        return _call("+", other, self)

    def __sub__(self, other: Any) -> Expr:
        return _call("-", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _call("-", other, self)

    def __mul__(self, other: Any) -> Expr:
        return _call("*", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _call("*", other, self)

    def __truediv__(self, other: Any) -> Expr:
        """Divide as float64, also integers."""
        return _call("/", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _call("/", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        """Divide integers, towards zero; a division by zero is null."""
        return _call("//", self, other)

    def __mod__(self, other: Any) -> Expr:
        return _call("%", self, other)

    def __pow__(self, other: Any) -> Expr:
        return _call("pow", self, other)

    def __neg__(self) -> Expr:
        return _call("neg", self)

    def __abs__(self) -> Expr:
        return _call("abs", self)

    def is_null(self) -> Expr:
        """Return true for rows without a value."""
        return _call("is null", self)

    def not_null(self) -> Expr:
        """Return true for rows with a value."""
        return _call("is not null", self)

    def between(self, low: Any, high: Any) -> Expr:
        """Return true for values from low to high, both included."""
        return (self >= low) & (self <= high)

    def isin(self, values: Any) -> Expr:
        """Return true for values that equal one of a list."""
        return _call("in", self, *values)

    def cast(self, kind: Any) -> Expr:
        """Convert to a pyarrow type or a name such as "int64"; a value that the type does not have is an error."""
        return _call("cast", self, type=type_name(kind))

    def try_cast(self, kind: Any) -> Expr:
        """Convert to a type; a value that the type does not have becomes null."""
        return _call("try_cast", self, type=type_name(kind))

    def fill_null(self, *values: Any) -> Expr:
        """Return the first of the expression and the values that is not null."""
        return _call("coalesce", self, *values)

    def null_if(self, value: Any) -> Expr:
        """Return null where the expression equals a value."""
        return _call("null_if", self, value)

    def round(self, digits: int = 0) -> Expr:
        """Round to a number of decimal digits, halves away from zero."""
        return _call("round", self, digits)

    def floor(self) -> Expr:
        """Return the largest whole number that is at most the value."""
        return _call("floor", self)

    def ceil(self) -> Expr:
        """Return the smallest whole number that is at least the value."""
        return _call("ceil", self)

    def sqrt(self) -> Expr:
        """Return the square root."""
        return _call("sqrt", self)

    def exp(self) -> Expr:
        """Return e to the power of the value."""
        return _call("exp", self)

    def log(self) -> Expr:
        """Return the natural logarithm."""
        return _call("log", self)

    def lower(self) -> Expr:
        """Return a text in lower case."""
        return _call("lower", self)

    def upper(self) -> Expr:
        """Return a text in upper case."""
        return _call("upper", self)

    def trim(self) -> Expr:
        """Return a text without spaces at its ends."""
        return _call("trim", self)

    def length(self) -> Expr:
        """Return the number of characters of a text."""
        return _call("length", self)

    def substring(self, start: Any, length: Any) -> Expr:
        """Return characters of a text; start is 1 for the first, negative from the end."""
        return _call("substring", self, start, length)

    def concat(self, *values: Any) -> Expr:
        """Return a text followed by values as text."""
        return _call("concat", self, *values)

    def replace(self, old: Any, new: Any) -> Expr:
        """Replace all occurrences of a text."""
        return _call("replace", self, old, new)

    def contains(self, text: Any) -> Expr:
        """Return true for texts that contain another."""
        return _call("contains", self, text)

    def starts_with(self, text: Any) -> Expr:
        """Return true for texts that begin with another."""
        return _call("starts_with", self, text)

    def ends_with(self, text: Any) -> Expr:
        """Return true for texts that end with another."""
        return _call("ends_with", self, text)

    def like(self, pattern: Any) -> Expr:
        """Return true for texts that match a pattern of SQL: % for any text, _ for any character."""
        return _call("like", self, pattern)

    def year(self) -> Expr:
        """Return the year of a date or time."""
        return _call("year", self)

    def month(self) -> Expr:
        """Return the month of a date or time, from 1 on."""
        return _call("month", self)

    def day(self) -> Expr:
        """Return the day of the month of a date or time."""
        return _call("day", self)

    def hour(self) -> Expr:
        """Return the hour of a time."""
        return _call("hour", self)

    def truncate(self, unit: str) -> Expr:
        """Return the start of the unit ("year", "month", "week", "day", "hour", …) of a date or time."""
        return _call("truncate", self, name=unit)

    def add_days(self, days: Any) -> Expr:
        """Return a date or time some days later."""
        return _call("add_days", self, days)

    def add_months(self, months: Any) -> Expr:
        """Return a date or time some months later."""
        return _call("add_months", self, months)

    def date_diff(self, unit: str, start: Any) -> Expr:
        """Return the number of starts of a unit from a date or time to this one."""
        return _call("date_diff", self, start, name=unit)


def col(name: str) -> Expr:
    """Return the column with a name."""
    return Expr({"op": "column", "name": name})


def lit(value: Any) -> Expr:
    """Return a constant: None, bool, int, float, str, Decimal, date or datetime."""
    return Expr(_literal(value))


def when(condition: Expr, then: Any, otherwise: Any = None) -> Expr:
    """Return one value for rows whose condition is true, and another for all others."""
    return _call("if", condition, then, otherwise)


def named(value: Any) -> Expr:
    """Return a name as its column and expressions as they are."""
    return col(value) if isinstance(value, str) else value if isinstance(value, Expr) else lit(value)


@dataclass(frozen=True)
class Agg:
    """An aggregate of the rows of a group. Aggregates skip nulls. Created by functions such as :func:`sum`."""

    func: str
    arg: Expr | None = None
    name: str = ""
    param: float = 0.0

    def alias(self, name: str) -> Agg:
        """Return the aggregate with a name, that of the column of the result."""
        return replace(self, name=name)

    @property
    def node(self) -> dict:
        """The aggregate in the form of a request."""
        out: dict[str, Any] = {"func": self.func, "name": self.name, "param": self.param}
        if self.arg is not None:
            out["arg"] = self.arg.node
        return out


def _aggregate(func: str, what: str):
    def make(value: Any) -> Agg:
        return Agg(func, named(value))

    make.__name__ = make.__qualname__ = func
    make.__doc__ = f"Return {what} of an expression or column, by name."
    return make


sum = _aggregate("sum", "the sum")
min = _aggregate("min", "the smallest value")
max = _aggregate("max", "the largest value")
mean = _aggregate("mean", "the mean")
var = _aggregate("var", "the variance of a sample")
std = _aggregate("std", "the standard deviation of a sample")
median = _aggregate("median", "the median")
first = _aggregate("first", "the value of the first row")
last = _aggregate("last", "the value of the last row")
nunique = _aggregate("nunique", "the number of different values")
collect_list = _aggregate("collect_list", "the values as a list")


def count(value: Any = None) -> Agg:
    """Return the number of rows, or that of the values of an expression that are not null."""
    return Agg("count", None if value is None else named(value))


def quantile(value: Any, q: float) -> Agg:
    """Return a quantile, interpolated between two values."""
    return Agg("quantile", named(value), param=q)


@dataclass(frozen=True)
class SortKey:
    """An expression to sort by. Created by :func:`asc` and :func:`desc`."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = False

    @property
    def node(self) -> dict:
        """The key in the form of a request."""
        return {"expr": self.expr.node, "desc": self.descending, "nullsfirst": self.nulls_first}


def asc(value: Any, nulls_first: bool = False) -> SortKey:
    """Return a key that sorts by ascending values, nulls last."""
    return SortKey(named(value), False, nulls_first)


def desc(value: Any, nulls_first: bool = False) -> SortKey:
    """Return a key that sorts by descending values, nulls last."""
    return SortKey(named(value), True, nulls_first)
