"""Case and affixes of words."""

import pytest
import tensorflow as tf

from bat_tf.text.features import CASES, FEATURES, feature_size, word_features
from bat_tf.text.splitting import find_words, read_characters


def features_of(words, names=FEATURES):
    characters = read_characters(tf.constant([" ".join(words)]))
    features = word_features(names, characters, find_words(characters, "whitespace"))
    return {name: values.numpy().tolist() for name, values in features.items()}


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("lower", ["water", "straße", "e"]),
        ("title", ["Water", "Écran", "E\u0301cran", "Ｗater"]),
        ("upper", ["USB", "ÉCRAN", "ＵＳＢ", "U.S."]),
        ("capital", ["A", "É", "E\u0301"]),
        ("mixed", ["iPhone", "McDonald"]),
        ("digits", ["2024", "２０２４", "٣"]),
        ("with digits", ["128GB", "3.5", "R2D2"]),
        ("punctuation", ["...", "€", "😀", "。"]),
        ("other", ["水", "한국", "かな"]),
    ],
)
def test_case(case, words):
    assert features_of(words)["case"] == [CASES.index(case)] * len(words)


def test_affixes_are_shared_exactly_by_words_that_share_them():
    words = ["walking", "Talking", "WALKED", "東京都", "ing"]
    found = features_of(words)
    assert found["suffix3"][0] == found["suffix3"][1] == found["suffix3"][4]
    assert found["prefix4"][0] == found["prefix4"][2]
    assert len(set(found["prefix1"])) == 4
    assert len(set(found["suffix4"])) == 4  # "king" twice
    assert found["prefix3"][3] == found["suffix3"][3]


def test_affixes_are_the_same_in_every_run():
    found = features_of(["walking"], ("prefix2", "suffix3"))
    assert found == {"prefix2": [1253], "suffix3": [2940]}


def test_sizes_hold_all_values_and_padding():
    words = [chr(place) + "x" for place in range(0x4E00, 0x4E00 + 3000)]
    for name, values in features_of(words).items():
        assert 0 < min(values) <= max(values) < feature_size(name)


def test_wrong_name_lists_the_right_ones():
    with pytest.raises(
        ValueError, match=r"`features` must be one of 'case', 'prefix1'"
    ):
        feature_size("shape")
