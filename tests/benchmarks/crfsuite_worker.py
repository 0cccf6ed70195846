"""sklearn-crfsuite with its customary features, in an environment of its own.

Reads a JSON file {"train": [[tokens, tags], …], "test": …} and prints one line of JSON:
the tags of the test part and the seconds.
"""

import json
import sys
import time

import sklearn_crfsuite


def of_word(tokens, place, side):
    """The features of the package's tutorial, without parts of speech."""
    word = tokens[place]
    found = {
        "lower": word.lower(),
        "upper": word.isupper(),
        "title": word.istitle(),
        "digit": word.isdigit(),
    }
    if not side:
        found |= {"bias": 1.0, "suffix3": word[-3:], "suffix2": word[-2:]}
    return {f"{side}{name}": value for name, value in found.items()}


def word_features(tokens, place):
    """A word and its two neighbours."""
    found = of_word(tokens, place, "")
    found |= of_word(tokens, place - 1, "-1:") if place else {"begins": True}
    last = place == len(tokens) - 1
    return found | ({"ends": True} if last else of_word(tokens, place + 1, "+1:"))


def character_features(tokens, place):
    """Characters from -2 to 2, and the pairs of neighbours among them."""

    def at(offset):
        here = 0 <= place + offset < len(tokens)
        return tokens[place + offset] if here else "_"

    found = {"bias": 1.0, "digit": tokens[place].isdigit()}
    found |= {f"{offset}": at(offset) for offset in (-2, -1, 0, 1, 2)}
    pairs = ((-2, -1), (-1, 0), (0, 1), (1, 2), (-1, 1))
    return found | {f"{a}|{b}": at(a) + "|" + at(b) for a, b in pairs}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        data = json.load(file)
    features = {"words": word_features, "characters": character_features}[sys.argv[2]]

    def rows(part):
        return [
            [features(tokens, place) for place in range(len(tokens))]
            for tokens, _ in data[part]
        ]

    begin = time.perf_counter()
    model = sklearn_crfsuite.CRF(
        algorithm="lbfgs",
        c1=0.1,
        c2=0.1,
        max_iterations=100,
        all_possible_transitions=True,
    )
    model.fit(rows("train"), [tags for _, tags in data["train"]])
    seconds = time.perf_counter() - begin
    tags = [list(row) for row in model.predict(rows("test"))]
    print(json.dumps({"tags": tags, "seconds": seconds}))


if __name__ == "__main__":
    main()
