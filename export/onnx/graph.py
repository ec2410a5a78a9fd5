"""Writes ONNX graphs as Python expressions, and the file."""

import pathlib
import typing
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Of onnxruntime 1.13 and everything newer.
OPSET, IR_VERSION = 17, 8
# The domain of onnxruntime-extensions.
EXTENSIONS = "ai.onnx.contrib"
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
STRING, DOUBLE = TensorProto.STRING, TensorProto.DOUBLE
# Above it weights have a file of their own, which onnxruntime maps: a base-size
# model then takes 1.5 times its size in memory, not 2.2. A protocol buffer
# holds 2 GiB.
_MAX_PROTO_BYTES = 100_000_000
_MIN_DATA_BYTES, _PAGE_BYTES = 1024, 4096
_END = 2**62

# An element type, and a shape of ints, names and None.
Info: typing.TypeAlias = tuple[int, Sequence[typing.Any]]


class Graph:
    """A graph that is being written.

    Operands are Values, arrays or Python numbers: a float is float32, an int is
    int64, and a list of ints is a vector.
    """

    def __init__(self) -> None:
        # Those of the body that is being written are last.
        self._scopes = [_Scope()]
        # By name those whose bytes are written with the file: protocol buffers
        # are copied several times.
        self._arrays: dict[str, np.ndarray] = {}
        self._count = 0

    def op(
        self,
        kind: str,
        *operands: typing.Any,
        outputs: int = 1,
        domain: str = "",
        **attributes: typing.Any,
    ) -> typing.Any:
        """Adds a node of an operator of https://onnx.ai/onnx/operators.

        Returns a Value, or a list of several.
        """
        names = [self._new_name(kind) for _ in range(outputs)]
        inputs = [self.value(operand).name for operand in operands]
        self._scopes[-1].nodes.append(
            helper.make_node(kind, inputs, names, domain=domain, **attributes)
        )
        values = [Value(self, name) for name in names]
        return values[0] if outputs == 1 else values

    def value(self, operand: typing.Any) -> "Value":
        """Returns an operand as a Value."""
        if isinstance(operand, Value):
            return operand
        return Value(self, self._add_constant(_to_array(operand)))

    def input(self, name: str) -> "Value":
        """Returns the Value of an input."""
        return Value(self, name)

    def concat(self, *operands: typing.Any, axis: int = 0) -> "Value":
        """Joins values along an axis; an int is a vector of one."""
        vectors = [[each] if type(each) is int else each for each in operands]
        if len(vectors) == 1:
            return self.value(vectors[0])
        return self.op("Concat", *vectors, axis=axis)

    def reshape(self, value: "Value", *shape: typing.Any) -> "Value":
        """Reshapes to ints and vectors of one; 0 keeps a size."""
        if all(type(each) is int for each in shape):
            return self.op("Reshape", value, [*shape])
        return self.op("Reshape", value, self.concat(*shape))

    def full(self, number: float, *shape: typing.Any) -> "Value":
        """Returns a number repeated to a shape of ints and vectors of one."""
        value = numpy_helper.from_array(_to_array(number).reshape(1))
        return self.op("ConstantOfShape", self.concat(*shape), value=value)

    def where(self, *operands: typing.Any) -> "Value":
        """Returns the second operand where the first is true, or the third."""
        return self.op("Where", *operands)

    def equal(self, *operands: typing.Any) -> "Value":
        """Returns where two operands are equal."""
        return self.op("Equal", *operands)

    def top_k(self, values: "Value", count: typing.Any) -> list["Value"]:
        """Returns the highest values of the last axis, and their indices."""
        return self.op("TopK", values, count, outputs=2)

    def loop(
        self,
        limit: "Value",
        states: Mapping[str, tuple["Value", Info]],
        body: Callable[..., tuple["Value", Mapping[str, "Value"]]],
    ) -> dict[str, "Value"]:
        """Repeats a body at most `limit` times, and returns the last states.

        `body` is a function of the index and a dict of the states that returns
        whether to run another step, and the next states.
        """
        names = {name: self._new_name(name) for name in states}
        index, runs = self._new_name("index"), self._new_name("runs")
        self._scopes.append(_Scope())
        condition, results = body(
            self.input(index),
            {name: self.input(inner) for name, inner in names.items()},
        )
        infos = [info for _, info in states.values()]
        proto = self._end_body(
            [condition, *(results[name] for name in states)],
            [(BOOL, []), *infos],
            [index, runs, *names.values()],
            [(INT64, []), (BOOL, []), *infos],
        )
        first = [value for value, _ in states.values()]
        outputs = self.op(
            "Loop", limit, True, *first, outputs=len(states), body=proto
        )
        return dict(zip(states, outputs))

    def branch(
        self,
        condition: "Value",
        infos: Sequence[Info],
        *bodies: Callable[[], Sequence["Value"]],
    ) -> list["Value"]:
        """Returns the values of the first function, or else of the second."""
        protos = []
        for body in bodies:
            self._scopes.append(_Scope())
            protos.append(self._end_body(body(), infos))
        names = "then_branch", "else_branch"
        return self.op(
            "If", condition, outputs=len(infos), **dict(zip(names, protos))
        )

    def _end_body(self, results, infos, input_names=(), input_infos=()):
        """Returns the proto of the innermost body."""
        # What a body returns must come from one of its nodes.
        names = [self.op("Identity", each).name for each in results]
        scope = self._scopes.pop()
        return helper.make_graph(
            scope.nodes,
            self._new_name("body"),
            [*map(_make_info, input_names, input_infos)],
            [*map(_make_info, names, infos)],
            scope.initializers(self._arrays),
        )

    def save(
        self,
        path: pathlib.Path,
        inputs: Mapping[str, Info],
        outputs: Mapping[str, tuple["Value", Info]],
        metadata: Mapping[str, str],
    ) -> None:
        """Writes the file, with more than 100 MB of weights in `PATH.data`."""
        (scope,) = self._scopes
        scope.nodes += [
            helper.make_node("Identity", [value.name], [name])
            for name, (value, _) in outputs.items()
        ]
        proto = helper.make_graph(
            scope.nodes,
            path.stem,
            [*map(_make_info, inputs, inputs.values())],
            [_make_info(name, info) for name, (_, info) in outputs.items()],
            scope.initializers(self._arrays),
        )
        domains = {"": OPSET, EXTENSIONS: 1}
        model = helper.make_model(
            proto,
            opset_imports=[
                *map(helper.make_opsetid, domains, domains.values())
            ],
            ir_version=IR_VERSION,
            producer_name="keras-translation",
        )
        helper.set_model_props(model, dict(metadata))
        total = sum(array.nbytes for array in self._arrays.values())
        tensors = [
            (tensor, self._arrays[tensor.name])
            for tensor in _find_initializers(model.graph)
            if tensor.name in self._arrays
        ]
        if total > _MAX_PROTO_BYTES:
            _write_data(path.with_name(f"{path.name}.data"), tensors)
        else:
            for tensor, array in tensors:
                tensor.raw_data = array.tobytes()
        onnx.save(model, path)
        onnx.checker.check_model(path)

    def _new_name(self, kind):
        self._count += 1
        return f"{kind}_{self._count}"

    def _add_constant(self, array):
        """Returns the name of a constant; equal small ones have the same.

        It belongs to the body that uses it first: each step of a loop costs
        time for each value from outside.
        """
        key = (id(array),)
        if array.size <= 64:
            key = array.dtype.str, array.shape, array.tobytes()
        for scope in self._scopes:
            if key in scope.constants:
                return scope.constants[key][0]
        name = self._new_name("constant")
        # Held, so that no other array gets its id.
        self._scopes[-1].constants[key] = name, array
        if array.nbytes >= _MIN_DATA_BYTES and array.dtype != object:
            self._arrays[name] = np.ascontiguousarray(array)
        return name


class _Scope:
    """The nodes and constants of a graph or of a body."""

    def __init__(self):
        self.nodes = []
        self.constants = {}

    def initializers(self, arrays):
        """Returns the constants, those of `arrays` without bytes."""
        return [
            onnx.TensorProto(
                name=name,
                dims=array.shape,
                data_type=helper.np_dtype_to_tensor_dtype(array.dtype),
            )
            if name in arrays
            else numpy_helper.from_array(array, name)
            for name, array in self.constants.values()
        ]


class Value:
    """The output of a node; operators add nodes.

    `value[..., 1:]` slices, also with Values as ends, `value[:, None]` adds an
    axis, and `value[:, 0]` selects from one axis, without slices of others.
    """

    def __init__(self, graph: Graph, name: str):
        self.graph, self.name = graph, name

    def _op(self, kind, *others):
        return self.graph.op(kind, self, *others)

    def __add__(self, other: typing.Any) -> "Value":
        return self._op("Add", other)

    def __sub__(self, other: typing.Any) -> "Value":
        return self._op("Sub", other)

    def __mul__(self, other: typing.Any) -> "Value":
        return self._op("Mul", other)

    def __truediv__(self, other: typing.Any) -> "Value":
        return self._op("Div", other)

    def __pow__(self, other: typing.Any) -> "Value":
        return self._op("Pow", other)

    def __lt__(self, other: typing.Any) -> "Value":
        return self._op("Less", other)

    def __le__(self, other: typing.Any) -> "Value":
        return self._op("LessOrEqual", other)

    def __gt__(self, other: typing.Any) -> "Value":
        return self._op("Greater", other)

    def __ge__(self, other: typing.Any) -> "Value":
        return self._op("GreaterOrEqual", other)

    def __and__(self, other: typing.Any) -> "Value":
        return self._op("And", other)

    def __or__(self, other: typing.Any) -> "Value":
        return self._op("Or", other)

    def __invert__(self) -> "Value":
        return self._op("Not")

    def cast(self, element_type: int) -> "Value":
        """Returns it with another element type."""
        return self.graph.op("Cast", self, to=element_type)

    def size(self, axis: int) -> "Value":
        """Returns the size of an axis, a vector of one."""
        return self.graph.op("Shape", self, start=axis, end=axis + 1)

    def transpose(self, *axes: int) -> "Value":
        """Returns it with its axes in another order."""
        return self.graph.op("Transpose", self, perm=[*axes])

    def __getitem__(self, items: typing.Any) -> "Value":
        items = items if isinstance(items, tuple) else (items,)
        # Axes after an ellipsis are counted from the end.
        first = -len(items) if items[0] is Ellipsis else 0
        starts, ends, axes, added = [], [], [], []
        value, graph = self, self.graph
        for axis, item in enumerate(items, first):
            if item is None:
                added.append(axis)
            elif isinstance(item, int):
                # The only index, after no axis that is added.
                return graph.op("Gather", value, np.array(item), axis=axis)
            elif isinstance(item, slice) and item != slice(None):
                starts.append(0 if item.start is None else item.start)
                ends.append(_END if item.stop is None else item.stop)
                axes.append(axis)
        if axes:
            ranges = [
                graph.concat(*each)
                if any(isinstance(one, Value) for one in each)
                else each
                for each in (starts, ends)
            ]
            value = graph.op("Slice", value, *ranges, axes)
        if added:
            value = graph.op("Unsqueeze", value, added)
        return value


def _find_initializers(graph):
    """Yields the constants of a GraphProto and of its bodies."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _find_initializers(attribute.g)


def _write_data(path, tensors):
    """Writes the bytes of (TensorProto, array) pairs to a file of their own."""
    with path.open("wb") as file:
        for tensor, array in tensors:
            # onnxruntime maps whole pages.
            file.seek(-file.tell() % _PAGE_BYTES, 1)
            place = {
                "location": path.name,
                "offset": file.tell(),
                "length": array.nbytes,
            }
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
            array.tofile(file)


def _to_array(operand):
    if isinstance(operand, np.ndarray):
        return operand
    dtypes = {float: np.float32, bool: np.bool_}
    return np.array(operand, dtypes.get(type(operand), np.int64))


def _make_info(name, info):
    return helper.make_tensor_value_info(name, *info)
