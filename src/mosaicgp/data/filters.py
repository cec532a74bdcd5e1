"""Filters written as text, such as "distance > 100 and carrier in ['UA', 'DL']"."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from mosaicgp.data.encoding import DatasetError, require

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_MIRROR: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}


def read_filter(filter: Any, schema: pa.Schema) -> pc.Expression | None:
    """The expression of a filter, which must fit the columns."""
    if filter is None:
        return None
    expression = parse_filter(filter, schema) if isinstance(filter, str) else filter
    if not isinstance(expression, pc.Expression):
        raise TypeError(f"filter: must be text or a pyarrow expression, not {filter!r}")
    try:
        ds.dataset(schema.empty_table()).scanner(filter=expression)
    except (pa.ArrowException, TypeError) as error:
        raise DatasetError(f"filter: {filter} does not fit the columns: {error}") from None
    return expression


def parse_filter(text: str, schema: pa.Schema) -> pc.Expression:
    """The expression of a filter made of comparisons of columns, `in`, `and`, `or`, `not`.

    Text compared with a date or timestamp column is read as a date, as in "day >= '2024-01-31'".
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return _expression(tree.body, schema)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, DatasetError):
            raise
        raise _unreadable(text, getattr(error, "msg", str(error))) from None


def _expression(node: ast.expr, schema: pa.Schema) -> pc.Expression:
    if isinstance(node, ast.BoolOp):
        join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
        return reduce(join, (_expression(value, schema) for value in node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ~_expression(node.operand, schema)
    if isinstance(node, ast.Name):  # a column of booleans
        return _field(node, schema)
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return reduce(operator.and_, (_comparison(a, op, b, schema) for a, op, b in pairs))
    raise _unreadable(ast.unparse(node), "this is not a comparison")


def _comparison(a: ast.expr, op: ast.cmpop, b: ast.expr, schema: pa.Schema) -> pc.Expression:
    if not isinstance(a, ast.Name) and isinstance(b, ast.Name) and type(op) in _MIRROR:
        a, op, b = b, _MIRROR[type(op)](), a
    if not isinstance(a, ast.Name):
        raise _unreadable(ast.unparse(a), "one side of a comparison must be a column")
    field = _field(a, schema)
    if isinstance(op, ast.In | ast.NotIn) and isinstance(b, ast.List | ast.Tuple | ast.Set):
        scalars = [_constant(item, a, schema) for item in b.elts]
        t = scalars[0].type if scalars and pa.types.is_temporal(scalars[0].type) else None
        inside = field.isin(pa.array([scalar.as_py() for scalar in scalars], t))
        return inside if isinstance(op, ast.In) else ~inside
    if type(op) not in _COMPARE:
        raise _unreadable(ast.unparse(b), "compare with <, <=, ==, !=, >=, > or `in [...]`")
    right = _field(b, schema) if isinstance(b, ast.Name) else _constant(b, a, schema)
    return _COMPARE[type(op)](field, right)


def _field(node: ast.Name, schema: pa.Schema) -> pc.Expression:
    require([node.id], schema, "filter")
    return pc.field(node.id)


def _constant(node: ast.expr, column: ast.Name, schema: pa.Schema) -> pa.Scalar:
    """A literal; text beside a date or timestamp column becomes one."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = None
    if not isinstance(value, bool | int | float | str):
        raise _unreadable(ast.unparse(node), "compare a column with a number, text or a column")
    t = schema.field(column.id).type
    if pa.types.is_decimal(t) and isinstance(value, int):
        value = float(value)  # Arrow compares decimals with a whole number only up to its digits
    scalar = pa.scalar(value)
    if isinstance(value, str) and (pa.types.is_date(t) or pa.types.is_timestamp(t)):
        try:
            return scalar.cast(t)
        except pa.ArrowInvalid as error:
            raise _unreadable(repr(value), f"column {column.id!r} holds {t}: {error}") from None
    return scalar


def _unreadable(text: str, why: str) -> DatasetError:
    return DatasetError(
        f"filter: cannot read {text!r} ({why}). Write comparisons such as "
        "\"distance > 100 and carrier == 'UA'\", or pass a pyarrow.compute expression."
    )
