"""Encodings of text files: UTF-8 is expected, UTF-16 and legacy ones are found out."""

import codecs
import io

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# What letters beside a to z the texts of a language have, and how they were saved
# before UTF-8. Of encodings that fit alike the first is taken.
_ALPHABETS = (
    ("cp1252", "äöüß"),
    ("cp1252", "éèêëàâçîïôùûœæ"),
    ("cp1252", "áéíóúñüçãâêôõàºª"),
    ("cp1252", "àèéìòù"),
    ("cp1252", "åäöæøéðþáíóúý"),
    ("cp1250", "ąćęłńóśźż"),
    ("cp1250", "áčďéěíňóřšťúůýžľĺŕôä"),
    ("cp1250", "áéíóöőúüű"),
    ("cp1250", "čćđšž"),
    ("cp1250", "ăâîşţ"),
    ("iso8859_2", "ąćęłńóśźż"),
    ("iso8859_2", "áčďéěíňóřšťúůýžľĺŕôä"),
    ("cp1254", "çğıöşüâî"),
    ("cp1251", "оеаинтсрвлкмдпуябгзчйхжшюцщэфьыъёіїєґўј"),
    ("koi8_r", "оеаинтсрвлкмдпуябгзчйхжшюцщэфьыъё"),
    ("cp866", "оеаинтсрвлкмдпуябгзчйхжшюцщэфьыъё"),
    ("cp1253", "αοιετσνηυρκπάίόςέμλδγήωχώθφύβξζψϊϋΐΰ"),
    ("cp1255", "יוהלאתרבמשנכדקעםפגחטצןסזךץף"),
    ("cp1256", "اليمونترهبدسعفحقكجةأشخصىضئطغظآءؤإذثزپچژگ"),
    ("cp874", "านรกอเงมยล่วดท้สตะปบคิหัแจพชขใไโผณูุซีื์ถญธศษึฟภ็ำฝฉฐ๊ฮฆฏ๋ฎฒฬฤฑฌ"),
)
# Of an alphabet that is no Latin one the letters come by how often they occur: most of
# any text are among the first ones, or it was saved in the encoding of another.
_FREQUENT = 12
_LATIN = tuple("äéáàåąčăçć")
_HAN = ("gb18030", "big5")
_SIGNS = frozenset(
    "“”„‘’‚«»–—…·•°§©®™€£¥½¼¾²³×¿¡\xa0、。，！？：；（）「」『』《》【】　・～"
)
_KANA = frozenset(map(chr, [*range(0x3041, 0x3100)]))
# Enough to know a language by, and little to read.
_ENOUGH = 2**16
_CERTAIN = 0.85


def find_encoding(file):
    """Reads a file of bytes to its end and returns the encoding of its text.

    Args:
        file: opened to read bytes, at its beginning.

    Returns:
        The name of a codec. It is "utf-8" also for what fits no encoding, and for files
        in which some lines are UTF-8 and others not: their readers name those lines.

    Example:
        >>> find_encoding(io.BytesIO("Größe und Maß".encode("cp1252")))
        'cp1252'
        >>> find_encoding(io.BytesIO("Größe".encode("utf-16")))
        'utf-16'
    """
    rest, wrong, counts = b"", [], [0, 0]
    begin = True
    while chunk := file.read(2**20):
        if begin:
            found = _by_marks(chunk)
            if found:
                while file.read(2**20):  # whoever calls wants to know that it is whole
                    pass
                return found
            begin = False
        whole, newline, rest = (rest + chunk).rpartition(b"\n")
        if len(rest) > 2**25:
            rest = b""  # a line that no reader takes
        _look_at(whole + newline, wrong, counts)
    _look_at(rest, wrong, counts)
    return _legacy(wrong, *counts)


def _by_marks(start):
    for mark, name in _MARKS:
        if start.startswith(mark):
            return name
    start = start[: 2**12]
    even, odd = start[::2].count(0), start[1::2].count(0)
    if len(start) >= 16 and not even and odd > 0.4 * len(start[1::2]):
        return "utf-16-le"
    if len(start) >= 16 and not odd and even > 0.4 * len(start[::2]):
        return "utf-16-be"
    return None


def _look_at(lines, wrong, counts):
    """Counts lines with other than ASCII characters: of UTF-8, and of no UTF-8."""
    try:
        counts[0] += len(lines.decode("utf-8")) < len(lines)
    except UnicodeDecodeError:
        size = sum(map(len, wrong))
        for line in lines.split(b"\n"):
            try:
                counts[0] += len(line.decode("utf-8")) < len(line)
            except UnicodeDecodeError:
                counts[1] += 1
                if size < _ENOUGH:
                    wrong.append(line[:_ENOUGH])
                    size += len(line)


def _legacy(wrong, right, count):
    """The encoding of lines that are not UTF-8, beside `right` lines that may be."""
    if not count or any(b"\0" in line for line in wrong):
        return "utf-8"
    found, different = [], {byte for line in wrong for byte in line if byte > 127}
    for encoding, letters in _ALPHABETS:
        latin = letters.startswith(_LATIN)
        longest = 3 if latin else 100
        share = _share(wrong, encoding, frozenset(letters).__contains__, longest)
        fit = share
        if len(different) < 4 and not latin:
            continue
        if share and not latin:
            often = frozenset(letters[:_FREQUENT])
            often = _share(wrong, encoding, often.__contains__)
            fit *= 0.7 + 0.3 * min(1, often / 0.6)
        found.append((fit, share, encoding))
    for encoding, share in (
        ("cp932", _japanese(wrong, "cp932")),
        ("euc_jp", _japanese(wrong, "euc_jp")),
        ("cp949", _share(wrong, "cp949", _is_hangul)),
        ("gb18030", _share(wrong, "gb18030", _usual_in("gb2312", 0xD7))),
        ("big5", _share(wrong, "big5", _usual_in("big5", 0xC6))),
    ):
        # Korean reads as Chinese, too.
        found.append((share * (0.97 if encoding in _HAN else 1), share, encoding))
    _, share, encoding = max(found, key=lambda row: row[0])
    # Single characters of Chinese or Japanese look like UTF-8 now and then.
    if share < _CERTAIN or (right and (encoding.startswith("cp1") or right > count)):
        return "utf-8"
    return encoding


def _share(lines, encoding, is_usual, longest=100):
    """Of the letters that are not ASCII, the share that is usual.

    Args:
        lines: list of bytes.
        encoding: what they are read as.
        is_usual: whether a small letter is.
        longest: how many of them in a row are usual.
    """
    usual = others = 0
    for line in lines:
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError:
            others += 5  # a line in a thousand may be damaged
            continue
        before, run = " ", 0
        for character in text:
            if character > "\x7f" and character not in _SIGNS:
                # Capitals are usual at the beginning of a word, or after each other.
                small = character if before.islower() else character.lower()
                run += 1
                if is_usual(small) and run <= longest:
                    usual += 1
                else:
                    others += 1
            else:
                run = 0
            before = character
    return usual / max(usual + others, 1)


def _japanese(lines, encoding):
    def is_usual(character):
        return character in _KANA or "\u4e00" <= character <= "\u9fff"

    # Chinese reads as Japanese, too, but has no kana.
    kana = _share(lines, encoding, _KANA.__contains__)
    return _share(lines, encoding, is_usual) if kana > 0.15 else 0.0


def _is_hangul(character):
    return "\uac00" <= character <= "\ud7a3"


def _usual_in(charset, last):
    """Whether a character is among the usual ones, which come first in a charset."""

    def is_usual(character):
        try:
            return (
                0xA4 <= character.encode(charset)[0] <= last and character not in _KANA
            )
        except UnicodeEncodeError:
            return False

    return is_usual


class AsUtf8(io.RawIOBase):
    """A stream of UTF-16 or UTF-32 as one of UTF-8."""

    def __init__(self, stream, encoding):
        self._stream, self._left = stream, b""
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ended = False

    def readable(self):
        return True

    def readinto(self, buffer):
        while not self._left and not self._ended:
            part = self._stream.read(2**16)
            self._ended = not part
            text = self._decoder.decode(part, final=self._ended)
            self._left = text.encode("utf-8", "surrogatepass")
        part = self._left[: len(buffer)]
        self._left = self._left[len(part) :]
        buffer[: len(part)] = part
        return len(part)
