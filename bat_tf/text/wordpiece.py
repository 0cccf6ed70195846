"""BERT's word pieces, equal in ids and offsets to the Hugging Face tokenizer.

Two ops of tensorflow-text are needed, NormalizeUTF8 and FastWordpiece, both of them in
every TF Serving since 2.11.
"""

from pathlib import Path

import tensorflow as tf

from bat_tf._internal.files import read_json
from bat_tf._internal.validation import check_folder, check_number, import_optional
from bat_tf.text.splitting import Pieces, as_strings, find_words, first_of_row

# What folders have whose texts are cut otherwise.
OTHERS = ("vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model")
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
_PREFIX = "##"
_MAX_CHARACTERS = 100  # BERT gives up on longer words

# As BERT cleans and splits: what is dropped, what is blank, what stands alone.
_DROPPED = r"[\x{0}-\x{8}\x{B}\x{C}\x{E}-\x{1F}\x{7F}-\x{9F}\x{FFFD}\p{Cf}\p{Co}]"
_BLANK = r"[\t\n\r\p{Z}]"
_PUNCTUATION = r"[!-/:-@\[-`{-~\p{P}]"
# BERT's blocks of Chinese characters; that one begins at 2B920 is Hugging Face's.
_CJK = (
    r"[\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}\x{20000}-\x{2A6DF}"
    r"\x{2A700}-\x{2B73F}\x{2B740}-\x{2B81F}\x{2B920}-\x{2CEAF}\x{2F800}-\x{2FA1F}]"
)
_BLANKS, _ALONE, _LETTERS = range(3)


def import_tensorflow_text():
    """Imports tensorflow-text, or says which one to install."""
    try:
        import tensorflow_text
    except (ImportError, tf.errors.NotFoundError) as error:
        raise ImportError(
            'kind="wordpiece" needs the package `tensorflow_text` in the version that '
            "belongs to the installed TensorFlow, and it cannot be imported. Install "
            'it with: pip install "tensorflow-text>=2.21.1,<2.22"; or use kind="words" '
            'or kind="characters", which need nothing beyond TensorFlow.'
        ) from error
    return tensorflow_text


class WordPieceModel:
    """Cuts characters into the pieces of a vocabulary.

    Args:
        vocabulary: list of pieces; those that continue a word begin with "##".
        lowercase: lowercase and strip accents, as uncased BERT models do.
    """

    def __init__(self, vocabulary, lowercase):
        self._lowercase = lowercase
        # What the op refuses no text matches, nor this name.
        pieces = [
            piece if _can_be_built(piece) else f"[void {place}]"
            for place, piece in enumerate(vocabulary)
        ]
        text = import_tensorflow_text()
        with tf.init_scope():
            self._op = text.FastWordpieceTokenizer(
                vocab=pieces,
                suffix_indicator=_PREFIX,
                unknown_token="[UNK]",
                token_out_type=tf.int32,
                # Counted in bytes; the limit in characters is kept before the op.
                max_bytes_per_word=4 * _MAX_CHARACTERS,
                no_pretokenization=True,
            )

    def __call__(self, characters):
        """Cuts texts into pieces.

        Args:
            characters: `Characters` of a batch of texts.

        Returns:
            int32 [P] ids of the pieces, and `Pieces` with their places.
        """
        words, sources = bert_words(characters, self._lowercase)
        too_long = words.row_lengths() > _MAX_CHARACTERS
        strings = tf.strings.unicode_encode(words, "UTF-8")
        strings = tf.where(too_long, "[UNK]", strings)
        ids, starts, ends = self._op.tokenize_with_offsets(strings)
        # From bytes of one word to bytes of all words, and from there to characters.
        owners = ids.value_rowids()
        begins = tf.cumsum(_num_bytes(words.values), exclusive=True)
        shift = tf.gather(tf.gather(begins, words.row_starts()), owners)
        first = tf.searchsorted(begins, shift + starts.values, out_type=tf.int64)
        limit = tf.where(
            tf.gather(too_long, owners),
            tf.gather(words.row_limits(), owners),
            tf.searchsorted(begins, shift + ends.values, out_type=tf.int64),
        )
        starts, ends = tf.gather(sources, first), tf.gather(sources, limit - 1) + 1
        splits = tf.searchsorted(starts, characters.row_splits, out_type=tf.int64)
        return ids.values, Pieces(starts, ends, splits)


def _can_be_built(piece):
    """Whether the op takes a piece: not if it is empty, has NUL or over 256 bytes."""
    size = len(piece.removeprefix(_PREFIX).encode())
    return piece and "\0" not in piece and size <= 256


def group_pieces(characters, pieces, split):
    """Finds the word of each piece: the one in which it begins.

    Args:
        characters: `Characters` of a batch of texts.
        pieces: `Pieces` that `WordPieceModel` returns.
        split: what a word is, as in `find_words`.

    Returns:
        `Pieces`, the words that have pieces, from their first piece to their last, and
        int64 [P], the place there of the word of each piece.
    """
    words = find_words(characters, split)
    word = tf.searchsorted(words.starts, pieces.starts, side="right")
    text = tf.searchsorted(characters.row_splits, pieces.starts, side="right")
    first = first_of_row(word) | first_of_row(text)
    last = tf.concat([first[1:], tf.ones_like(first[:1])], 0)
    starts, ends = pieces.starts[first], pieces.ends[last]
    splits = tf.searchsorted(starts, characters.row_splits, out_type=tf.int64)
    return Pieces(starts, ends, splits), tf.cumsum(tf.cast(first, tf.int64)) - 1


def bert_words(characters, lowercase):
    """Cleans and splits texts as BERT does, before the pieces.

    Args:
        characters: `Characters` of a batch of texts.
        lowercase: lowercase and strip accents.

    Returns:
        Ragged int32 [W, None], normalised code points of each word, and int64, the
        place in `characters.codes` that each of them comes from.
    """
    forms, kinds = _normal_forms(characters.distinct, lowercase)
    places = tf.gather(forms.with_values(tf.range(tf.size(kinds))), characters.index)
    kinds = tf.gather(kinds, places.values)
    sources = places.value_rowids()
    rows = tf.RaggedTensor.from_row_splits(
        characters.codes, characters.row_splits, validate=False
    ).value_rowids()
    previous = tf.concat([kinds[:1], kinds[:-1]], 0)
    inside = kinds != _BLANKS
    opens = inside & (
        (kinds == _ALONE)
        | (previous != _LETTERS)
        | first_of_row(tf.gather(rows, sources))
    )
    words = tf.RaggedTensor.from_row_starts(
        tf.gather(forms.values, places.values[inside]),
        tf.where(opens[inside])[:, 0],
        validate=False,
    )
    return words, sources[inside]


def bert_word_strings(characters, lowercase):
    """The words of `bert_words` as strings, without those too long to be cut."""
    words, _ = bert_words(characters, lowercase)
    strings = tf.strings.unicode_encode(words, "UTF-8")
    return strings[words.row_lengths() <= _MAX_CHARACTERS]


def _normal_forms(codes, lowercase):
    """What each code point [U] becomes, ragged [U, None], and the kind of each part."""
    strings = as_strings(codes)
    normal = strings
    if lowercase:  # one character at a time, as Hugging Face does: no final sigma
        normal = import_tensorflow_text().normalize_utf8(normal, "NFD")
        normal = tf.strings.regex_replace(normal, r"\p{Mn}", "")
        normal = tf.strings.lower(normal, encoding="utf-8")
    normal = tf.where(tf.strings.regex_full_match(strings, _DROPPED), "", normal)
    forms = tf.strings.unicode_decode(normal, "UTF-8")
    parts = as_strings(forms.values)
    cjk = tf.strings.regex_full_match(strings, _CJK)
    alone = tf.strings.regex_full_match(parts, _PUNCTUATION)
    alone |= tf.gather(cjk, forms.value_rowids())
    blank = tf.strings.regex_full_match(parts, _BLANK)
    return forms, tf.where(blank, _BLANKS, tf.where(alone, _ALONE, _LETTERS))


def _num_bytes(codes):
    """Length of each code point in UTF-8, int64."""
    limits = tf.constant([0x80, 0x800, 0x10000])
    return 1 + tf.searchsorted(limits, codes, side="right", out_type=tf.int64)


def learn_pieces(counts, size, min_count):
    """Learns a vocabulary of word pieces; the same counts give the same vocabulary.

    Args:
        counts: normalised word -> how often it occurs.
        size: pieces in the vocabulary. Every character is kept, even if that is more.
        min_count: how often a pair of pieces must occur to become one.

    Returns:
        The list of pieces.
    """
    tokenizers = import_optional("tokenizers", "dev", "Learning word pieces")
    words = sorted(counts)
    # The trainer numbers continuing characters in random order, and ties between pairs
    # are broken by number. Given beforehand, the numbers are always the same.
    inner = sorted({character for word in words for character in word[1:]})
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_count,
        limit_alphabet=0x110000,
        special_tokens=[*SPECIALS, "[MASK]", *(_PREFIX + letter for letter in inner)],
        continuing_subword_prefix=_PREFIX,
        show_progress=False,
    )
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_repeated(words, counts), trainer)
    vocabulary = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.get)


def _repeated(words, counts, longest=1000):
    """Lines that hold each word as often as it was counted."""
    for word in words:
        full, rest = divmod(counts[word], longest)
        yield from [" ".join([word] * longest)] * full
        yield " ".join([word] * rest)


def read_folder(path):
    """Reads the vocabulary of a BERT-family folder.

    Args:
        path: folder with `vocab.txt` or `tokenizer.json`, and, if the model is cased, a
            `tokenizer_config.json` that says so.

    Returns:
        The list of pieces, and whether the model is lowercased.
    """
    path = Path(path)
    saved = _read_if_there(path / "tokenizer.json")
    others = [path / name for name in OTHERS if (path / name).exists()]
    if saved and not (path / "vocab.txt").exists():
        vocabulary = _json_vocabulary(path / "tokenizer.json", saved.get("model"))
    elif others and not (path / "vocab.txt").exists():
        raise ValueError(_of_others(others[0]))
    else:
        what = "a BERT-family model (vocab.txt or tokenizer.json)"
        path = check_folder(path, ["vocab.txt"], what)
        lines = (path / "vocab.txt").read_text(encoding="utf-8").split("\n")
        vocabulary = [line.removesuffix("\r") for line in lines]
        if not vocabulary[-1]:
            vocabulary.pop()
    return vocabulary, _is_lowercase(path, saved.get("normalizer") or {})


def _json_vocabulary(path, model):
    """The pieces in `tokenizer.json`, in the order of their ids."""
    model = model if isinstance(model, dict) else {}
    if model.get("type") != "WordPiece":
        raise ValueError(f"{_of_others(path)} Received: {model.get('type')!r}.")
    ids = model.get("vocab")
    try:
        places = [check_number("id", ids[piece], 0, integer=True) for piece in ids]
        pieces = dict(zip(places, ids, strict=True))
        # A few ids may be missing; a huge one would fill the memory.
        most = check_number("id", max(pieces), 0, 2 * len(ids) + 1000)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path} must say the id of each piece, from 0 on: {error}. Copy or "
            "download the file again."
        ) from None
    return [pieces.get(place, f"[void {place}]") for place in range(most + 1)]


def _of_others(path):
    """The sentence about a vocabulary that is not read."""
    return (
        f"The texts of the model in {path.parent} cannot be tokenised yet: "
        f"{path.name} must hold a WordPiece vocabulary, as those of BERT, MiniLM, "
        "DistilBERT and ELECTRA do. RoBERTa and XLM-R have BPE and SentencePiece."
    )


def _read_if_there(path):
    return read_json(path) if path.exists() else {}


def _is_lowercase(path, normalizer):
    """Whether the folder's model is uncased; raises for what is neither."""
    config = _read_if_there(path / "tokenizer_config.json")
    lowercase = config.get("do_lower_case", normalizer.get("lowercase", True))
    accents = config.get("strip_accents", normalizer.get("strip_accents"))
    chinese = config.get("tokenize_chinese_chars", True)
    if accents not in (None, lowercase) or not chinese:
        raise ValueError(
            f"The tokenizer in {path} has do_lower_case={lowercase}, "
            f"strip_accents={accents}, tokenize_chinese_chars={chinese}. Only models "
            "that strip accents exactly if they lowercase, and that split Chinese "
            "characters, can be reproduced."
        )
    return lowercase
