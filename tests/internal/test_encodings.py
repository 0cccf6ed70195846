import io

import pytest

from bat_tf._internal.encodings import find_encoding
from bat_tf._internal.validation import DataError
from bat_tf.data import read

TEXTS = {
    "cp1252": [
        "Größe und Maß für Möbel",
        "le café a été très grand",
        "el niño comió una piña más",
        "Coração não é só isso",
        "smørrebrød på bordet",
        "perché la città è più bella",
        "café",
    ],
    "cp1250": [
        "zażółć gęślą jaźń proszę być",
        "příliš žluťoučký kůň úpěl ďábelské ódy",
        "Árvíztűrő tükörfúrógép",
    ],
    "cp1254": ["çok güzel bir ürün, ışık ve şeker"],
    "cp1251": ["Привет, мир! Это новый товар", "Москва"],
    "koi8_r": ["Привет, мир! Это новый товар"],
    "cp1253": ["Καλημέρα κόσμε, τι κάνεις σήμερα"],
    "cp1255": ["שלום עולם, זה מוצר חדש ויפה"],
    "cp1256": ["مرحبا بالعالم هذا منتج جديد"],
    "cp874": ["สวัสดีชาวโลก นี่คือสินค้าใหม่"],
    "cp932": ["これは日本語の文章です。新しい商品", "東京タワーは高い"],
    "euc_jp": ["これは日本語の文章です。新しい商品"],
    "cp949": ["안녕하세요 새로운 상품입니다"],
    "gb18030": ["这是一个新的产品，价格很便宜"],
    "big5": ["這是一個新的產品，價格很便宜"],
}


@pytest.mark.parametrize(
    ("encoding", "text"), [(name, text) for name in TEXTS for text in TEXTS[name]]
)
def test_an_older_encoding_is_found_out_and_said(tmp_path, encoding, text):
    path = tmp_path / "old.csv"
    path.write_bytes(f'text,label\n"{text}",a\nplain text,b\n'.encode(encoding))
    data = read(path)
    assert data.texts == [text, "plain text"]
    assert data.found["encoding"] == encoding
    assert f"old.csv is not UTF-8; it is read as {encoding}" in data.notices[0]


@pytest.mark.parametrize("text", [text for texts in TEXTS.values() for text in texts])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_unicode_needs_no_notice(tmp_path, encoding, text):
    path = tmp_path / "new.csv"
    path.write_bytes(f'text,label\r\n"{text * 9}",a|b\r\n'.encode(encoding))
    if encoding in ("utf-16-le", "utf-16-be"):  # ASCII alone shows that it is one
        path.write_bytes((f"text,label\n{'plain ' * 90},a|b\n").encode(encoding))
    data = read(path)
    assert data.labels == [("a", "b")] and data.notices == []


def test_an_encoding_can_be_named(tmp_path):
    path = tmp_path / "old.jsonl"
    path.write_bytes('{"text": "ночь", "labels": ["день"]}\n'.encode("cp866"))
    data = read(path, encoding="cp866")
    assert data.texts == ["ночь"] and data.notices == []
    with pytest.raises(ValueError, match="`encoding` must be the name of a codec"):
        read(path, encoding="klingon")


def test_a_file_of_utf8_with_a_wrong_line_keeps_its_encoding(tmp_path):
    path = tmp_path / "mixed.jsonl"
    good = '{"text": "Größe", "labels": ["a"]}\n'
    path.write_bytes(good.encode() * 3 + good.encode("cp1252"))
    with pytest.raises(DataError, match=r"line 4: not UTF-8 .*--on-error skip"):
        read(path)
    assert read(path, on_error="skip").texts == ["Größe"] * 3


def test_lines_that_are_not_of_the_encoding_are_named(tmp_path):
    path = tmp_path / "old.csv"
    rows = "text,label\n" + "これは日本語の文章です,a\n" * 60
    path.write_bytes(rows.encode("cp932") + b"\x81\x00\xff\xff\x81,b\n")
    with pytest.raises(DataError, match="line 62"):
        read(path, encoding="cp932")
    assert len(read(path, encoding="cp932", on_error="skip")) == 60


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"\xff" * 90, b"\x80\x81\n" * 9, bytes(range(256))]
)
def test_what_fits_no_encoding_is_left_to_the_reader(content):
    assert find_encoding(io.BytesIO(content)) == "utf-8"


def test_a_damaged_utf16_file_is_a_sentence(tmp_path):
    path = tmp_path / "new.csv"
    path.write_bytes("text,label\nA goal,a\n".encode("utf-16")[:-1])
    with pytest.raises(DataError, match="is not utf-16 text"):
        read(path)
