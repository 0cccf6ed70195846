import pytest

from bat_tf._internal import validation as _validation


def test_a_sentence_names_argument_expected_received_and_remedy():
    text = _validation.sentence("gamma", "a number", "x", "Pass 0.")
    assert text == "`gamma` must be a number. Received: 'x'. Pass 0."


def test_choices_are_listed():
    assert _validation.check_choice("norm", "post", ("post", "pre")) == "post"
    with pytest.raises(ValueError, match=r"`norm` must be one of 'post', 'pre'"):
        _validation.check_choice("norm", "mid", ("post", "pre"))


@pytest.mark.parametrize("value", [-1, 11, "3", None, True, float("nan")])
def test_numbers_outside_their_range_are_refused(value):
    with pytest.raises(ValueError, match=r"`k` must be a number >= 0 and <= 10"):
        _validation.check_number("k", value, low=0, high=10)


def test_whole_numbers_are_told_from_others():
    assert _validation.check_number("k", 3, low=1, integer=True) == 3
    with pytest.raises(ValueError, match="must be an integer >= 1"):
        _validation.check_number("k", 2.5, low=1, integer=True)


def test_data_errors_name_file_and_line():
    error = _validation.DataError("a.jsonl", 7, "not JSON.")
    assert str(error) == "a.jsonl, line 7: not JSON."
    assert str(_validation.DataError("a.jsonl", None, "empty.")) == "a.jsonl: empty."


def test_data_errors_do_not_show_a_line_of_a_megabyte():
    error = _validation.DataError("a.jsonl", 7, f"begins {'x' * 10**6} and ends.")
    assert "line 7: begins xxx" in str(error) and str(error).endswith("x and ends.")
    assert len(str(error)) < 800


def test_what_is_shown_is_bounded_in_length_and_depth():
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert _validation.shown(deep) == "something that is nested too deeply"
    assert _validation.shown("x" * 10**6) == "'" + "x" * 199 + "…"
    assert _validation.shown({"a": 1}) == "{'a': 1}"


def test_missing_packages_come_with_the_command():
    with pytest.raises(ImportError, match=r'pip install "bat-tf\[tfds\]"'):
        _validation.import_optional("no_such_package", "tfds", "Reading TFDS sets")
