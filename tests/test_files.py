import gzip
import lzma

import pytest

from bat_tf._validation import DataError
from bat_tf.data.files import atomic_write, decode, read_lines


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_what_is_written_is_read_back(tmp_path, ending):
    path = tmp_path / "new folder" / f"file.txt{ending}"
    with atomic_write(path) as file:
        file.write("東京\nline two\u2028still two\n")
    assert [(n, decode(line)) for n, line in read_lines(path)] == [
        (1, "東京"),
        (2, "line two\u2028still two"),
    ]
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_byte_order_mark_and_windows_line_ends_are_dropped(tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n\r\nfour")
    assert [line for _, line in read_lines(path)] == [b"one", b"two", b"", b"four"]


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_a_compressed_name_without_compressed_content_is_a_sentence(tmp_path, ending):
    path = tmp_path / f"file.jsonl{ending}"
    path.write_bytes(b'{"text": "plain"}')
    with pytest.raises(
        DataError, match=f"name ends in {ending}, but it is not a whole"
    ):
        list(read_lines(path))


@pytest.mark.parametrize("module, ending", [(gzip, ".gz"), (lzma, ".xz")])
def test_a_truncated_file_is_a_sentence(tmp_path, module, ending):
    path = tmp_path / f"file.jsonl{ending}"
    path.write_bytes(module.compress(b"some text\n" * 1000)[:-20])
    with pytest.raises(DataError, match="not a whole file of that kind"):
        list(read_lines(path))


def test_missing_file_and_folder_are_sentences(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.txt does not exist"):
        list(read_lines(tmp_path / "gone.txt"))
    with pytest.raises(IsADirectoryError, match="is a folder; expected a file"):
        list(read_lines(tmp_path))


@pytest.mark.parametrize(
    "line, reason",
    [
        (b"caf\xe9", r"not UTF-8 text \(byte 0xe9 at position 4\). Save it as UTF-8"),
        (b"\x1f\x8b\x08", "gzip data under another name: unpack or rename"),
        (b"PK\x03\x04\xff", "zip data under another name"),
        ("text".encode("utf-16-le"), "binary or UTF-16"),
    ],
)
def test_bytes_that_are_not_text_are_sentences(line, reason):
    with pytest.raises(ValueError, match=reason):
        decode(line)


def test_a_full_disk_leaves_the_older_file_and_nothing_else(tmp_path):
    path = tmp_path / "labels.json"
    path.write_text("old")
    with pytest.raises(OSError, match="No space left"), atomic_write(path) as file:
        file.write("new")
        raise OSError(28, "No space left on device")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
