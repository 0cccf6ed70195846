"""Scripts and languages of texts, and how tokens of them are put together."""

import re
from collections import Counter
from itertools import islice

from bat_tf.data.dataset import Span

# Han, kana, Thai, Lao, Khmer, Myanmar and what stands between them: no blanks there.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff01-\uff0f\uff1a-\uff20\uff3b-\uff9f"
    "\U00020000-\U0003134f]"
)
_WORD = re.compile(r"[^\W\d_]")
# Stands for a blank token between blanks, so that splitting there finds it again.
BLANK_WORD = "\ufffd"
BY_SCRIPT = "by script"

_SCRIPTS = {
    "Cyrillic": "\u0400-\u052f",
    "Greek": "\u0370-\u03ff\u1f00-\u1fff",
    "Arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff",
    "Hebrew": "\u0590-\u05ff",
    "Devanagari": "\u0900-\u097f",
    "Bengali": "\u0980-\u09ff",
    "Tamil": "\u0b80-\u0bff",
    "Telugu": "\u0c00-\u0c7f",
    "Thai": "\u0e00-\u0e7f",
    "Lao": "\u0e80-\u0eff",
    "Myanmar": "\u1000-\u109f",
    "Georgian": "\u10a0-\u10ff",
    "Armenian": "\u0530-\u058f",
    "Ethiopic": "\u1200-\u139f",
    "Khmer": "\u1780-\u17ff",
    "Hangul": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "Kana": "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "Han": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f",
    "Latin": "A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff",
}
_SCRIPTS = {name: re.compile(f"[{letters}]") for name, letters in _SCRIPTS.items()}
# Scripts of one language, as far as texts that people tag go.
_LANGUAGE_OF = {
    "Greek": "el",
    "Hebrew": "he",
    "Devanagari": "hi",
    "Bengali": "bn",
    "Tamil": "ta",
    "Telugu": "te",
    "Thai": "th",
    "Lao": "lo",
    "Myanmar": "my",
    "Georgian": "ka",
    "Armenian": "hy",
    "Ethiopic": "am",
    "Khmer": "km",
    "Hangul": "ko",
    "Kana": "ja",
    "Han": "zh",
}
# Words by which languages of one script are told apart: the usual small ones.
_WORDS = {
    "en": "the of and to in is for that with was on are this it you be by not from",
    "de": "der die und das mit für von den ist nicht im ein eine auf zu dem sich des",
    "fr": "le la les de des et du pour est une dans que qui pas sur avec au par ce il",
    "es": "el la los de las y del que en una para con por un es no se su al lo",
    "pt": "o os de da do e que em uma para com não um as dos no na por se mais",
    "it": "il di che la e per un una in con non del della sono gli alla nel si da più",
    "nl": "de het een van en in is dat op te voor met zijn niet aan er om ook als door",
    "sv": "och att det som en är på för med av ett den till inte har jag om de var",
    "da": "og at det er en til på som af for med der den ikke et har de jeg om fra",
    "nb": "og å det er en til på som av for med i den ikke et har de jeg om fra hun",
    "fi": "ja on ei se että oli hän ovat mutta myös kun joka tai niin sen jos mitä",
    "pl": "i w na z się nie do to jest że o jak po od za przez dla co tym lub",
    "cs": "a v se na je že s z do o to jako pro ale jsou by podle které byl nebo",
    "hu": "a az és hogy nem is egy ez meg van volt csak de mint már még el ha vagy",
    "ro": "și de în la cu nu pe din este că o un mai pentru sau care fi sunt prin",
    "tr": "ve bir bu için de da ile çok olarak daha ne gibi olan en kadar sonra var mi",
    "id": "yang dan di untuk dengan ini dari dalam tidak pada itu adalah akan juga ke",
    "vi": "và của là có không được một cho các trong với này người những đã để từ khi",
    "ru": "и в не на что с как по это из к он для от но у так же все за",
    "uk": "і в не на що з та до як це від за у його для але є або про",
    "bg": "и на да се за от в не че с по е са като но или което до",
    "sr": "и у је да се на за од су са као не ће али који из",
    "ar": "في من على إلى أن هذا التي مع عن كان ما لا هو",
    "fa": "و در به از که این را با است برای آن یک می",
    "ur": "کے کی میں ہے اور سے کا کو یہ پر نے ہیں",
}
_WORDS = {language: frozenset(words.split()) for language, words in _WORDS.items()}
_BY_SCRIPT = {
    "Latin": [name for name, words in _WORDS.items() if min(words) < "\u0250"],
    "Cyrillic": ["ru", "uk", "bg", "sr"],
    "Arabic": ["ar", "fa", "ur"],
}
_TOKEN = re.compile(r"[^\W\d_]+")


def is_unspaced(character):
    """Whether no blank stands beside a character of this script.

    Example:
        >>> is_unspaced("東"), is_unspaced("한"), is_unspaced("a")
        (True, False, False)
    """
    return bool(_UNSPACED.match(character))


def find_joiner(tokens):
    """What stands between tokens, found out from many of them.

    Args:
        tokens: iterable of tokens.

    Returns:
        "" if nearly all of them are single characters, `BY_SCRIPT` if most are of a
        script without blanks, else " ".

    Example:
        >>> find_joiner(["東京", "タワー", "は"]), find_joiner(["New", "York"])
        ('by script', ' ')
        >>> find_joiner("東京タワー")
        ''
    """
    single = words = unspaced = total = 0
    for token in tokens:
        total += 1
        single += len(token) == 1
        if _WORD.search(token):
            words += 1
            unspaced += bool(_UNSPACED.search(token))
    if single > 0.95 * total:
        return ""
    return BY_SCRIPT if unspaced > 0.5 * words else " "


def join_tokens(tokens, spans, joiner):
    """Makes a text of tokens, and spans that count tokens into spans of characters.

    Args:
        tokens: the tokens. A blank one keeps its place: as itself (or " ") if the text
            is joined by "" or by script, as U+FFFD if it is joined by blanks.
        spans: `Span`s that count tokens.
        joiner: what stands between two tokens; `BY_SCRIPT` for a blank unless one of
            the characters beside it is of a script without blanks.

    Returns:
        (text, spans): a string and `Span`s that count its characters.

    Example:
        >>> join_tokens(["New", "York"], [Span(0, 2, "LOC")], " ")
        ('New York', [Span(start=0, end=8, kind='LOC')])
        >>> join_tokens(["東京", "に", "Apple", "Store"], [], BY_SCRIPT)[0]
        '東京にApple Store'
    """
    if joiner == BY_SCRIPT:
        return _join_by_script(tokens, spans)
    if joiner:
        tokens = [token if token.strip() else BLANK_WORD for token in tokens]
    else:
        tokens = [token or " " for token in tokens]
    starts, place = [], 0
    for token in tokens:
        starts.append(place)
        place += len(token) + len(joiner)
    return joiner.join(tokens), _in_characters(spans, starts, tokens)


def _join_by_script(tokens, spans):
    tokens = [token or " " for token in tokens]
    parts, starts, place, before = [], [], 0, " "
    for token in tokens:
        first = token[0]
        glued = before.isspace() or first.isspace()
        if not (glued or _UNSPACED.match(before) or _UNSPACED.match(first)):
            parts.append(" ")
            place += 1
        starts.append(place)
        parts.append(token)
        place += len(token)
        before = token[-1]
    return "".join(parts), _in_characters(spans, starts, tokens)


def _in_characters(spans, starts, tokens):
    return [
        Span(starts[s.start], starts[s.end - 1] + len(tokens[s.end - 1]), s.kind)
        for s in spans
    ]


def find_script(texts):
    """The script that most letters of some texts are of, and "" if there are none.

    Example:
        >>> find_script(["東京タワーは高い"]), find_script(["Zorv lamp"])
        ('Kana', 'Latin')
    """
    letters = Counter("".join(texts))
    counts = Counter()
    for letter, count in letters.items():
        for name, pattern in _SCRIPTS.items():
            if pattern.match(letter):
                counts[name] += count
                break
    if not counts:
        return ""
    # Japanese is written in both.
    if counts["Kana"] > 0.1 * (counts["Kana"] + counts["Han"]):
        counts["Kana"] += counts.pop("Han", 0)
    return counts.most_common(1)[0][0]


def find_language(texts):
    """The language of most of some texts, as far as their small words tell.

    Args:
        texts: iterable of texts; the first thousand are looked at.

    Returns:
        Its two letters, such as "de", or "" if it is not clear.

    Example:
        >>> find_language(["Die Lampe ist nicht aus dem Haus"]), find_language(["Zorv"])
        ('de', '')
        >>> find_language(["東京タワーは高い"])
        'ja'
    """
    texts = [text[:1000] for text in islice(texts, 1000)]
    script = find_script(texts)
    if script in _LANGUAGE_OF:
        return _LANGUAGE_OF[script]
    words = Counter(_TOKEN.findall(" ".join(texts).lower()))
    scores = {
        language: sum(words[word] for word in _WORDS[language])
        for language in _BY_SCRIPT.get(script, ())
    }
    best = sorted(scores, key=scores.get, reverse=True)[:2]
    if not best or scores[best[0]] < max(1, 0.03 * words.total()):
        return ""
    if len(best) > 1 and scores[best[0]] < 1.15 * scores[best[1]]:
        return ""
    return best[0]
