"""The papers' tables as data: what they compare, how it is run, what they print.

The printed values are in papers.json beside this folder. A row or column of a table is a
name that stands for settings of a run ("BAT", "CE", "12-layer"), for a score of it
("macro F2"), or for something that cannot be run here.
"""

from examples.papers.tables import balanced, bat, me_xml, zlpr

TABLES = {
    table.id: table
    for paper in (bat, balanced, zlpr, me_xml)
    for table in paper.tables()
}
