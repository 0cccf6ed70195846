import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from bat_tf.encoders.folder import open_tensors

WHOLE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def write(path, header, data=b"\0" * 8, length=None):
    source = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(source) if length is None else length
    path.write_bytes(length.to_bytes(8, "little") + source + data)
    return path


def test_what_is_whole_is_read(tmp_path):
    tensors = {"a": np.ones((2, 3), "float16")}
    save_file(tensors, tmp_path / "x", metadata={"format": "pt"})
    assert open_tensors(tmp_path / "x").get_slice("a").get_shape() == [2, 3]
    file = open_tensors(write(tmp_path / "y", {"a": WHOLE}))
    assert file.get_slice("a").get_shape() == [2]


@pytest.mark.fault(
    "a safetensors file whose header declares what is not in it, or is damaged",
    '"… could not be read as safetensors: … Copy or download the file again …"',
)
@pytest.mark.parametrize(
    "change",
    [
        {"a": {**WHOLE, "shape": [2**60]}},
        {"a": {**WHOLE, "shape": [2**60], "data_offsets": [0, 2**62]}},
        {"a": {**WHOLE, "shape": [-2]}},
        {"a": {**WHOLE, "shape": [True, 2]}},
        {"a": {**WHOLE, "data_offsets": [4, 12]}},
        {"a": {**WHOLE, "data_offsets": [8]}},
        {"a": {**WHOLE, "dtype": "F999"}},
        {"a": 3},
        {"a": {}},
        [],
        b"{" * 5000,
        b"[" * 5000,
        b"\xff\xff",
    ],
    ids=range(13),
)
def test_headers_that_lie_are_sentences(change, tmp_path, sees):
    with pytest.raises(OSError) as found:
        open_tensors(write(tmp_path / "x", change))
    sees(str(found.value))


@pytest.mark.parametrize("length", [0, 10**9, 2**63])
def test_a_header_longer_than_the_file(length, tmp_path):
    with pytest.raises(OSError, match="could not be read as safetensors"):
        open_tensors(write(tmp_path / "x", {"a": WHOLE}, length=length))
    (tmp_path / "y").write_bytes(b"")
    with pytest.raises(OSError, match="could not be read as safetensors"):
        open_tensors(tmp_path / "y")
