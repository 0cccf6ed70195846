"""One file a format: rows → `Example`s. A new format gets a line in FORMATS."""

from bat_tf.data.readers import conll, fasttext, jsonl, tables, xmc

FORMATS = {
    "jsonl": jsonl.JSONL,
    "json": jsonl.JSON,
    "conll": conll.CONLL,
    "csv": tables.CSV,
    "tsv": tables.TSV,
    "fasttext": fasttext.FASTTEXT,
    "xmc": xmc.XMC,
}
