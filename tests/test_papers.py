"""The printed tables hang together."""

import pytest

from bat_tf.experiments import papers

TABLES = ["S1_TABLE_2", "S1_TABLE_3", "S2_TABLE_1", "S2_TABLE_12"]


@pytest.mark.parametrize("name", TABLES)
def test_every_row_has_a_value_for_every_column(name):
    table = getattr(papers, name)
    for row, values in table["rows"].items():
        assert len(values) == len(table["columns"]), row


def test_totals_of_s1_are_the_same_in_both_tables():
    for row, values in papers.S1_TABLE_3["rows"].items():
        assert papers.S1_TABLE_2["rows"][row][:2] == values[:2]


def test_wins_of_s2_add_up_to_its_experiments():
    rows = papers.S2_TABLE_1["rows"].values()
    # 22 each; ranking loss has one tie (Toxic, Roberta).
    totals = [sum(column) for column in zip(*rows, strict=True)]
    assert totals == [22, 22, 22, 22, 22, 23]
