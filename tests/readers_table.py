"""The table of formats in examples/guides/own_data.md, made of the readers themselves.

`python tests/readers_table.py` writes it; a test fails while another one is there.
"""

from pathlib import Path

from bat_tf.data import FORMATS

GUIDE = Path(__file__).parent.parent / "examples" / "guides" / "own_data.md"
BEGIN = "<!-- formats: made by tests/readers_table.py -->\n"
END = "<!-- end of formats -->\n"
# Files that stand beside others and are read with them.
BESIDE = ("train_labels.txt", "lbl.json")


def examples():
    """(format, name of a file, its content), those that are read by themselves."""
    return [
        (key, name, content)
        for key, each in FORMATS.items()
        for name, content in each.examples.items()
        if name not in BESIDE
    ]


def table():
    """The rows as Markdown."""
    lines = ["| format | recognised by | file | its beginning |", "|---|---|---|---|"]
    for key, name, content in examples():
        each = FORMATS[key]
        ending = ", ".join(e for e in each.endings if e.startswith("."))
        by = each.recognised + (f"; {ending}" if ending else "")
        first = next(iter(each.examples)) == name
        shown = content.rstrip("\n").replace("\t", " → ").replace("|", "\\|")
        cells = [f"`{line}`" if line else "(blank)" for line in shown.split("\n")[:5]]
        format_cell, by = (f"`{key}`", by) if first else ("", "")
        by = by.replace("`|`", "`\\|`")
        lines.append(f"| {format_cell} | {by} | `{name}` | {'<br>'.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_guide():
    """Puts the table between its marks in the guide."""
    text = GUIDE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    GUIDE.write_text(head + BEGIN + table() + END + tail, encoding="utf-8")


if __name__ == "__main__":
    write_guide()
