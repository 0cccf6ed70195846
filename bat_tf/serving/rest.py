"""The JSON of TF Serving's REST API: requests to arrays, arrays to answers."""

import base64
import json
import reprlib

import numpy as np
from starlette.exceptions import HTTPException

from bat_tf.serving.versions import DEFAULT


def read_request(body, inputs_of, most=None):
    """Reads the body of a `:predict`.

    Args:
        body: bytes.
        inputs_of: function from the name of a signature to its inputs, by name.
        most: rows that a request may have.

    Returns:
        (name of the signature, dict of arrays, whether the request is in rows).

    Example:
        >>> import tensorflow as tf
        >>> spec = {"text": tf.TensorSpec([None], tf.string)}
        >>> read_request(b'{"instances": ["a lamp"]}', lambda name: spec)
        ('serving_default', {'text': array([b'a lamp'], dtype=object)}, True)
    """
    try:
        request = json.loads(body.decode("utf-8"), object_hook=_binary)
    except (ValueError, TypeError, RecursionError) as error:
        raise HTTPException(400, f"The request is not JSON: {error}.") from None
    forms = {"instances", "inputs"}
    if not isinstance(request, dict) or len(forms & set(request)) != 1:
        wanted = '{"instances": …} in rows or {"inputs": …} in columns'
        raise HTTPException(400, f"A request must be {wanted}, one of the two.")
    signature = request.get("signature_name", DEFAULT)
    if not isinstance(signature, str):
        raise HTTPException(400, "`signature_name` must be a string.")
    specs, rows = inputs_of(signature), "instances" in request
    columns = request["instances" if rows else "inputs"]
    if rows and isinstance(columns, list) and columns:
        columns = _by_column(columns, specs)
    if not isinstance(columns, dict) and len(specs) == 1:
        columns = dict.fromkeys(specs, columns)  # the only input needs no name
    if not isinstance(columns, dict) or set(columns) != set(specs):
        names = ", ".join(f"`{name}`" for name in sorted(specs))
        received = reprlib.repr(columns)
        raise HTTPException(400, f"The inputs must be {names}. Received: {received}.")
    counts = {len(column) for column in columns.values() if isinstance(column, list)}
    if most is not None and max(counts, default=0) > most:
        raise HTTPException(400, f"A request must have 1 to {most} rows. Send several.")
    arrays = {name: to_array(name, columns[name], spec) for name, spec in specs.items()}
    return signature, arrays, rows


def _binary(value):
    """Bytes, which JSON has no form for: TF Serving writes them {"b64": …}."""
    if set(value) == {"b64"}:
        return base64.b64decode(value["b64"], validate=True)
    return value


def _by_column(rows, specs):
    """Rows that name their values, as columns; the first row that does so wrongly."""
    if not all(isinstance(row, dict) for row in rows):
        return rows
    for row in rows:
        if set(row) != set(specs):
            return row
    return {name: [row[name] for row in rows] for name in specs}


def to_array(name, value, spec):
    """A JSON value as the array that a TensorSpec asks for.

    TensorFlow's own conversion is not for strangers: it repeats short rows, cuts large
    numbers off and ends the process at lists that are nested too deep.

    Args:
        name: of the input, for errors.
        value: nested lists.
        spec: `tf.TensorSpec`.

    Returns:
        `numpy.ndarray`; strings are bytes in an array of objects.

    Example:
        >>> import tensorflow as tf
        >>> to_array("ids", [[1, 2], [3, 4]], tf.TensorSpec([None, None], tf.int32))
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    dtype = np.dtype(spec.dtype.as_numpy_dtype)
    try:
        if not isinstance(value, list):
            raise TypeError("a list is missing")
        leaves = np.array(value, object)
        if not spec.shape.is_compatible_with(leaves.shape):
            raise ValueError("another shape")
        if any(type(leaf) not in _FITTING[dtype.kind] for leaf in leaves.flat):
            raise TypeError("another type")
        if dtype.kind != "O":
            return np.array(value, dtype)
        texts = [x if isinstance(x, bytes) else x.encode("utf-8") for x in leaves.flat]
        return np.array(texts, object).reshape(leaves.shape)
    except (ValueError, TypeError, OverflowError):
        kind = "strings" if dtype.kind == "O" else dtype.name
        expected = f"`{name}` must be {kind} of shape {spec.shape}"
        received = reprlib.repr(value)
        raise HTTPException(400, f"{expected}. Received: {received}.") from None


_FITTING = {"O": (str, bytes), "i": (int,), "f": (int, float), "b": (bool,)}


def write_answer(found, rows):
    """The body of an answer.

    Args:
        found: dict of arrays, each with a row for each row of the request.
        rows: whether it is in rows.

    Returns:
        bytes of JSON.

    Example:
        >>> write_answer({"scores": np.float32([[0.2]]), "num_tags": [1]}, rows=True)
        b'{"predictions": [{"scores": [0.2], "num_tags": 1}]}'
    """
    answer = {"outputs": {name: to_json(value) for name, value in found.items()}}
    if rows:
        columns = answer["outputs"]
        values = zip(*columns.values(), strict=True)
        answer = {
            "predictions": [dict(zip(columns, row, strict=True)) for row in values]
        }
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")


def to_json(array):
    """An array as nested lists: strings as text, floats with no more digits than told.

    >>> to_json(np.float32([0.2])), to_json(np.array([b"a"], object))
    ([0.2], ['a'])
    """
    array = np.asarray(array)
    if array.dtype == object:
        texts = [text.decode("utf-8", "replace") for text in array.ravel()]
        return np.array(texts, object).reshape(array.shape).tolist()
    if array.dtype == np.float32:
        # By way of the shortest decimal: 0.2, not 0.20000000298023224.
        array = array.astype(str).astype(float)
    return array.tolist()
