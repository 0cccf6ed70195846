import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_tf.data import AmbiguousFile
from bat_tf.data.readers.separators import Cells


def separator(cells, column="label", typed=False):
    return Cells("x.csv", 1, column, cells, typed=typed).separator


@pytest.mark.parametrize(
    ("cells", "column", "expected"),
    [
        (["a|b", "b"], "label", "|;"),
        (["a;b", "c"], "label", "|;"),
        (["<python><c#>", "<c#>"], "tags", "<>"),
        (["a, b", "a", "b, c"], "labels", ","),
        (["a,b", "c"], "labels", ","),
        (["27", "2,15", "15,2"], "", ","),
        (["体育，新闻", "新闻"], "标签", ","),
        (["python pandas", "python numpy", "numpy"], "tags", " "),
        (["p12 p7", "p9", "p7 p12", "p3 p9"], "", " "),
        (["<http://x/p1> <http://x/p2>", "<http://x/p1>"], "", " "),
        # One name each.
        (["sport", "news"] * 9, "label", None),
        (["Home & Garden", "Home Decor", "Garden Tools"] * 50, "category", None),
        (["machine learning", "computer vision", "speech"] * 50, "topic", None),
        (["Bags, Wallets & Belts", "Shoes", "Hats"] * 50, "category", None),
        (["Ciencia y tecnología", "Deportes"] * 5, "categoría", None),
    ],
)
def test_what_divides_names_is_found_out(cells, column, expected):
    assert separator(cells, column) == expected


@pytest.mark.parametrize(
    "cells",
    [
        ["a,b", "c"],
        ["very good", "good", "bad", "very bad"] * 9,
        ["New York", "Rome", "York"],
    ],
)
def test_what_is_not_clear_is_asked(cells):
    with pytest.raises(AmbiguousFile, match="may be one label or 2") as found:
        separator(cells, "label")
    for reading in found.value.readings:
        divided = Cells("x.csv", 1, "label", cells, **reading.options).names(cells[0])
        assert len(divided) == (1 if reading.options["separator"] == "" else 2)


names = st.text("abcdef", min_size=1, max_size=4)


@given(st.lists(st.lists(names, min_size=1, unique=True), min_size=1))
def test_names_between_bars_come_back(rows):
    cells = ["|".join(row) for row in rows]
    found = Cells("x.csv", 1, "label", cells)
    assert [found.names(cell) for cell in cells] == rows
