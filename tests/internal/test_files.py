import gzip
import lzma
import random
import zipfile

import deaths
import pytest

from bat_tf._internal import files
from bat_tf._internal.files import (
    OPENERS,
    Limits,
    Source,
    atomic_folder,
    atomic_write,
    decode,
    plain_name,
    read_lines,
    settled,
)
from bat_tf._internal.validation import DataError
from bat_tf.data import read


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


@pytest.mark.parametrize(
    ("path", "name"),
    [("a/b.jsonl.gz", "b.jsonl"), ("b.TXT.XZ", "b.TXT"), ("b.tar", "b.tar")],
)
def test_a_name_without_the_ending_of_packed_files(path, name):
    assert plain_name(path) == name


def test_a_faulty_row_is_raised_or_listed():
    source = Source("news.txt")
    with pytest.raises(DataError, match=r"news\.txt, line 3: odd") as found:
        with source.at(3):
            raise ValueError("odd")
    assert found.value.__suppress_context__ and source.skipped == []
    source = Source("news.txt", "skip")
    with source.at(3):
        raise ValueError("odd")
    with source.at(4, "other.txt"):
        raise ValueError("odd")
    with source.at(5):  # one that knows its place keeps it
        raise DataError("third.txt", 9, "odd")
    source.note(6, "half of it")
    places = [(error.path, error.line) for error in source.skipped]
    assert places == [
        ("news.txt", 3),
        ("other.txt", 4),
        ("third.txt", 9),
        ("news.txt", 6),
    ]
    with pytest.raises(KeyError):  # only what is wrong with the data is a fault
        with source.at(7):
            raise KeyError("x")
    with pytest.raises(ValueError, match="`on_error` must be one of"):
        Source("news.txt", "ignore")


def bomb(path, size=3_000_000):
    """A small file that unpacks to `size` bytes, a row a line."""
    with OPENERS[path.suffix](path, "wb") as file:
        file.write(b'{"text": "a", "labels": []}\n' * (size // 28))
    return path


@pytest.mark.fault(
    "decompression bomb (.gz, .xz, .bz2) in any reader",
    '"… unpacks to more than … MB, which is all that is taken from a file of … MB: it '
    'may be built to fill the memory. If you trust it, raise `max_unpacked_mb`, …"',
)
@pytest.mark.parametrize("ending", OPENERS)
def test_a_bomb_ends_at_the_limit(tmp_path, ending, monkeypatch, sees):
    path = bomb(tmp_path / f"rows.jsonl{ending}")
    limits = Limits.of(max_unpacked_mb=1)
    lines = 0
    with pytest.raises(DataError) as found:
        for _ in read_lines(path, limits):
            lines += 1
    sees(str(found.value))
    assert 0 < lines * 28 <= limits.unpacked(path.stat().st_size)
    with pytest.raises(DataError, match="unpacks to more than 1 MB"):
        read(path, max_unpacked_mb=1, on_error="skip")
    monkeypatch.setenv("BAT_TF_MAX_UNPACKED_MB", "1")
    with pytest.raises(DataError, match="BAT_TF_MAX_UNPACKED_MB"):
        read(path)
    assert sum(1 for _ in read_lines(path, Limits.of(4))) == 3_000_000 // 28
    monkeypatch.setenv("BAT_TF_MAX_UNPACKED_MB", "much")
    with pytest.raises(ValueError, match="`BAT_TF_MAX_UNPACKED_MB` must be a number"):
        read(path)


def test_a_large_file_may_unpack_to_twenty_times_its_size(tmp_path):
    path = tmp_path / "rows.txt.gz"
    with gzip.open(path, "wb") as file:
        file.write(random.Random(0).randbytes(200_000).hex().encode() + b"\n")
    assert len(list(read_lines(path, Limits.of(max_unpacked_mb=0.1)))) == 1


@pytest.mark.fault(
    "a line of many megabytes without an end, in any reader",
    '"… the line is longer than 16 MB. If it is meant to be, raise `max_line_mb`, …"',
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_line_without_end(tmp_path, ending, sees):
    path = tmp_path / f"rows.jsonl{ending}"
    opener = OPENERS.get(ending, open)
    with opener(path, "wb") as file:
        file.write(b'{"text": "a", "labels": []}\n')
        for _ in range(17):
            file.write(b"x" * 1_000_000)
    lines = read_lines(path)
    assert next(lines)[0] == 1
    with pytest.raises(DataError, match="line 2: the line is longer") as found:
        next(lines)
    sees(str(found.value))
    longer = Limits.of(max_line_mb=20)
    assert [len(line) for _, line in read_lines(path, longer)] == [27, 17_000_000]


def test_a_cell_without_end_is_a_sentence(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('text,label\n"' + "a\n" * 30_000)
    with pytest.raises(DataError, match="line 2: .*raise `max_line_mb`"):
        read(path, max_line_mb=0.05)


def write_folder(folder, text):
    with atomic_folder(folder) as unfinished:
        (unfinished / "inner").mkdir()
        (unfinished / "inner" / "a.txt").write_text(text)


def test_a_file_and_a_folder_are_on_the_disk_before_they_take_their_place(
    tmp_path, monkeypatch
):
    disk = deaths.Recording()
    monkeypatch.setattr(files, "disk", disk)
    with atomic_write(tmp_path / "note.txt") as file:
        file.write("one")
    (flushed, _), moved, around = disk.done
    assert flushed == "flush" and moved == ("rename", "note.txt")
    assert around == ("flush", tmp_path.name)
    for way in ("rename", "exchange"):
        disk.done.clear()
        write_folder(tmp_path / "1", way)
        place = [step for step, name in disk.done].index(way)
        names = {name for step, name in disk.done[:place]}
        assert names == {"inner", "a.txt", ".1.new"}
        assert disk.done[place + 1] == ("flush", tmp_path.name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "note.txt"]


def test_a_file_that_is_being_written_survives_any_death(tmp_path):
    path = tmp_path / "note.txt"

    def write():
        with atomic_write(path) as file:
            file.write("new")

    found = []
    for step in range(9):
        path.write_text("old")
        died = deaths.dies(write, step)
        found.append(path.read_text())
        if not died:
            break
    assert found == ["old", "old", "new", "new"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_an_error_leaves_the_older_folder_and_nothing_else(
    tmp_path, monkeypatch, exchanges
):
    monkeypatch.setattr(files, "disk", deaths.Dying(999, exchanges))
    write_folder(tmp_path / "1", "old")
    with pytest.raises(OSError, match="No space"), atomic_folder(tmp_path / "1") as new:
        (new / "half").write_text("new")
        raise OSError(28, "No space left on device")
    rename = files.disk.rename

    def fails(old, new):
        if old.name == ".1.new":
            raise OSError(5, "Input/output error")
        rename(old, new)

    if not exchanges:
        monkeypatch.setattr(files.disk, "rename", fails)
        with pytest.raises(OSError, match="Input/output"):
            write_folder(tmp_path / "1", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    assert deaths.contents(tmp_path / "1") == {"inner/a.txt": b"old"}


class Failing(deaths.Dying):
    """A disk on which a flush fails; the step is that of the flush."""

    def flush(self, path):
        self._left -= 1
        if self._left == -1:
            raise OSError(5, "Input/output error", str(path))


@pytest.mark.fault(
    "disk that fails to flush what an export wrote",
    "the error names the file; what was there before is back in its place",
)
@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("old", [{}, {"inner/a.txt": b"old"}])
def test_a_flush_that_fails_changes_nothing(tmp_path, monkeypatch, exchanges, old):
    if old:
        write_folder(tmp_path / "1", "old")
    failed = 0
    for step in range(9):
        disk = Failing(step, exchanges)
        monkeypatch.setattr(files, "disk", disk)
        monkeypatch.setattr(disk, "_live", lambda: None)
        try:
            write_folder(tmp_path / "1", "new")
            break
        except OSError as error:
            failed += 1
            assert error.filename.startswith(str(tmp_path))
            assert deaths.contents(tmp_path) == {
                f"1/{name}": text for name, text in old.items()
            }
    assert failed == 4  # two folders, a file, and the folder around them
    assert deaths.contents(tmp_path / "1") == {"inner/a.txt": b"new"}


def test_a_failing_flush_names_the_file(tmp_path, monkeypatch):
    def broken(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(OSError, match=r"Input/output error: .*note"):
        with atomic_write(tmp_path / "note.txt") as file:
            file.write("new")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_name_of_its_own_is_read(tmp_path, monkeypatch):
    write_folder(tmp_path / "shop" / "1", "new")
    (tmp_path / "link").symlink_to(tmp_path / "shop" / "1")
    monkeypatch.chdir(tmp_path / "shop" / "1")
    assert str(settled(".")) == "." and str(settled("/")) == "/"
    # What was swapped lies beside the place that a link leads to.
    (tmp_path / "shop" / "1").rename(tmp_path / "shop" / ".1.old")
    assert (settled(tmp_path / "link") / "inner" / "a.txt").read_text() == "new"


def test_who_may_not_finish_a_swap_reads_the_old_folder(tmp_path, monkeypatch):
    write_folder(tmp_path / "shop" / "1", "old")
    (tmp_path / "shop" / "1").rename(tmp_path / "shop" / ".1.old")

    def forbidden(*_):
        raise PermissionError("read-only")

    with monkeypatch.context() as patch:
        patch.setattr(files.disk, "rename", forbidden)
        found = settled(tmp_path / "shop" / "1")
        assert (found / "inner" / "a.txt").read_text() == "old"
    # A server names the folder around it.
    assert settled(tmp_path / "shop") == tmp_path / "shop"
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["1"]


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


ROW = '{"text": "A goal", "labels": ["sport"]}\n'


def test_a_file_in_an_archive_is_read(tmp_path):
    extras = {"README.md": "x", "__MACOSX/._a.jsonl": "x", ".hidden": "x", "sub/": ""}
    path = zipped(tmp_path / "news.ZIP", {"sub/news.jsonl": ROW, **extras})
    assert read(path).texts == ["A goal"] and Source(path).name == "news.jsonl"
    path = zipped(tmp_path / "news.zip", {"a/train.jsonl": ROW, "b.jsonl": ROW * 2})
    assert len(read(path / "b.jsonl")) == 2 and len(read(path / "a/train.jsonl")) == 1
    with pytest.raises(
        DataError,
        match=r'the files a/train.jsonl, b.jsonl. Name .*news.zip/a/train.js"?',
    ):
        read(path)
    with pytest.raises(DataError, match="holds the files"):
        read(path / "c.jsonl")


@pytest.mark.fault(
    "zip archive of data that is a bomb, or whose names lead out of the folder",
    '"… unpacks to more than … MB, which is all that is taken from a file of … MB"; '
    "names lead nowhere, as nothing is unpacked to the disk",
)
def test_a_hostile_archive_is_a_sentence(tmp_path, sees):
    path = zipped(tmp_path / "bomb.zip", {"a.jsonl": ROW * 100_000})
    with pytest.raises(DataError) as found:
        read(path, max_unpacked_mb=1)
    sees(str(found.value))
    path = zipped(tmp_path / "out.zip", {"../../etc/rows.jsonl": ROW})
    assert read(path).texts == ["A goal"]
    assert [one.name for one in tmp_path.iterdir()].count("rows.jsonl") == 0
    content = bytearray(zipped(tmp_path / "locked.zip", {"a.jsonl": ROW}).read_bytes())
    for magic, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(magic) + place] |= 1  # "is encrypted"
    (tmp_path / "locked.zip").write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be unpacked \(.*password"):
        read(tmp_path / "locked.zip")
    for half in (b"", b"PK\x03\x04", bytes(content[:40])):
        (tmp_path / "half.zip").write_bytes(half)
        with pytest.raises(DataError, match="not a whole file of that kind"):
            read(tmp_path / "half.zip")
