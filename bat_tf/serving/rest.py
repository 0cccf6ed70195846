"""The JSON of TF Serving's REST API: requests to arrays, arrays to answers."""

import base64
import binascii
import json

import numpy as np
import tensorflow as tf

from bat_tf.serving.engine import DEFAULT, Refusal


def read_request(body, inputs_of):
    """Reads the body of a `:predict`.

    Args:
        body: bytes.
        inputs_of: function from the name of a signature to its inputs, by name.

    Returns:
        (name of the signature, dict of arrays, whether the request is in rows).

    Example:
        >>> spec = {"text": tf.TensorSpec([None], tf.string)}
        >>> read_request(b'{"instances": ["a lamp"]}', lambda name: spec)
        ('serving_default', {'text': array([b'a lamp'], dtype=object)}, True)
    """
    request = _parse(body)
    signature = request.get("signature_name", DEFAULT)
    if not isinstance(signature, str):
        raise _wrong("'signature_name' key must be a string value.")
    specs = inputs_of(signature or DEFAULT)
    given = [key for key in ("instances", "inputs") if key in request]
    if not given:
        raise _wrong("Missing 'inputs' or 'instances' key")
    if len(given) == 2:
        raise _wrong("expecting only one of 'inputs' or 'instances' keys to exist")
    rows = given == ["instances"]
    columns = (_by_row if rows else _by_column)(request[given[0]], specs)
    arrays = {name: to_array(name, columns[name], specs[name]) for name in specs}
    return signature or DEFAULT, arrays, rows


def _parse(body):
    try:
        request = json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _wrong(f"JSON Parse error: not UTF-8 at offset: {error.start}") from None
    except json.JSONDecodeError as error:
        text = f"JSON Parse error: {error.msg} at offset: {error.pos}"
        raise _wrong(text) from None
    except (ValueError, RecursionError):
        raise _wrong("JSON Parse error: nested too deep or a number too long") from None
    if not isinstance(request, dict):
        raise _wrong(f"JSON Value: {_short(request)} Is not object")
    return request


def _by_row(instances, specs):
    if not isinstance(instances, list):
        raise _wrong("Expecting 'instances' to be an list/array")
    if not instances:
        raise _wrong("No values in 'instances' array")
    if any(_is_object(row) for row in instances):
        for number, row in enumerate(instances):
            if not _is_object(row) or set(row) != set(specs):
                raise _wrong(
                    f"Failed to process element: {number} of 'instances' list. "
                    f"JSON object: {_short(row)} keys must be equal to: "
                    + ",".join(sorted(specs))
                )
        return {name: [row[name] for row in instances] for name in specs}
    if len(specs) > 1:
        raise _wrong(
            "instances is a plain list, but expecting list of objects as multiple "
            "input tensors required: " + ", ".join(sorted(specs))
        )
    return dict.fromkeys(specs, instances)


def _by_column(inputs, specs):
    if not _is_object(inputs):
        if len(specs) > 1:
            raise _wrong(
                "inputs is a plain value/list, but expecting an object as multiple "
                "input tensors required: " + ", ".join(sorted(specs))
            )
        return dict.fromkeys(specs, inputs)
    for name in specs:
        if name not in inputs:
            raise _wrong(f"Missing named input: {name} in 'inputs' object.")
    return inputs


def _is_object(value):
    return isinstance(value, dict) and not _is_base64(value)


def _is_base64(value):
    return isinstance(value, dict) and set(value) == {"b64"}


def to_array(name, value, spec):
    """A JSON value as the array that a TensorSpec asks for.

    Args:
        name: of the input, for errors.
        value: nested lists.
        spec: `tf.TensorSpec`.

    Returns:
        `numpy.ndarray`; strings are bytes in an array of objects.

    Example:
        >>> to_array("ids", [[1, 2], [3, 4]], tf.TensorSpec([None, None], tf.int32))
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    shape, leaves = [], [value]
    while leaves and isinstance(leaves[0], list):
        sizes = {len(x) if isinstance(x, list) else -1 for x in leaves}
        if len(sizes) > 1:
            raise _wrong(f"`{name}`: the lists at one level must be of one length.")
        shape.append(sizes.pop())
        leaves = [leaf for row in leaves for leaf in row]
    if len(shape) != spec.shape.rank:
        raise _wrong(
            f"`{name}` must be of rank {spec.shape.rank}. Received: {len(shape)}."
        )
    values = [_leaf(leaf, spec.dtype) for leaf in leaves]
    dtype = object if spec.dtype == tf.string else spec.dtype.as_numpy_dtype
    try:
        return np.array(values, dtype).reshape(shape)
    except OverflowError:
        raise _wrong(f"`{name}` has a number too large for {spec.dtype.name}") from None


def _leaf(value, dtype):
    if dtype == tf.string:
        return _string(value)
    if dtype.is_bool:
        fits = isinstance(value, bool)
    else:
        kinds = int if dtype.is_integer else (int, float)
        fits = isinstance(value, kinds) and not isinstance(value, bool)
    if not fits:
        raise _wrong_type(value, dtype)
    return value


def _string(value):
    try:
        if isinstance(value, str):
            return value.encode("utf-8")
        if _is_base64(value) and isinstance(value["b64"], str):
            return base64.b64decode(value["b64"], validate=True)
    except UnicodeEncodeError:
        text = "JSON Parse error: The surrogate pair in string is invalid."
        raise _wrong(text) from None
    except (binascii.Error, ValueError):
        raise _wrong("Unable to base64 decode") from None
    raise _wrong_type(value, tf.string)


def write_answer(found, rows):
    """The body of an answer.

    Args:
        found: dict of arrays.
        rows: whether it is in rows, which wants arrays that begin with the same size.

    Returns:
        bytes of JSON.

    Example:
        >>> write_answer({"scores": np.float32([[0.2]]), "num_tags": [1]}, rows=True)
        b'{"predictions": [{"scores": [0.2], "num_tags": 1}]}'
    """
    columns = {name: to_json(value) for name, value in found.items()}
    if not rows:
        answer = {"outputs": _unnamed(columns)}
    else:
        if len({len(column) for column in columns.values()}) > 1:
            raise _wrong("The outputs are not one a row. Ask with 'inputs' instead.")
        names, values = list(columns), zip(*columns.values(), strict=True)
        listed = [_unnamed(dict(zip(names, row, strict=True))) for row in values]
        answer = {"predictions": listed}
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")


def _unnamed(columns):
    """The values of a single output go without its name."""
    return next(iter(columns.values())) if len(columns) == 1 else columns


def to_json(array):
    """An array as nested lists: strings as text, floats with no more digits than told.

    >>> to_json(np.float32([0.2])), to_json(np.array([b"a"], object))
    ([0.2], ['a'])
    """
    array = np.asarray(array)
    if array.dtype == object:
        shape, texts = array.shape, array.ravel()
        texts = np.array([text.decode("utf-8", "replace") for text in texts], object)
        return texts.reshape(shape).tolist()
    if array.dtype == np.float32:
        # By way of the shortest decimal: 0.2, not 0.20000000298023224.
        array = array.astype(str).astype(float)
    return array.tolist()


def _wrong(sentence):
    return Refusal("INVALID_ARGUMENT", sentence)


def _wrong_type(value, dtype):
    kind = type(value).__name__
    return _wrong(
        f"JSON Value: {_short(value)} Type: {kind} is not of expected type: "
        f"{dtype.name}"
    )


def _short(value):
    try:
        return json.dumps(value, ensure_ascii=True)[:100]
    except RecursionError:
        return "something that is nested too deeply"
