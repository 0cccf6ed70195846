"""Printed tables of the papers, as data: what our own results are held against.

Percentages; None where the print has lost a value.
"""

# S1, "Balancing Methods for Multi-label Text Classification with Long-Tailed Class
# Distribution": BERT-base on Reuters-21578, micro and macro F1.
S1_TABLE_2 = {
    "columns": (
        "micro_f1",
        "macro_f1",
        "head micro_f1",
        "head macro_f1",
        "medium micro_f1",
        "medium macro_f1",
        "tail micro_f1",
        "tail macro_f1",
    ),
    # Groups by training count n: head n >= 35, medium 8 < n < 35, tail n <= 8. The row
    # DB is missing in print; its totals are those of Table 3.
    "rows": {
        "SVM": (87.6, 51.63, 89.87, 78.47, 66.92, 61.0, 22.54, 13.83),
        "BCE": (89.14, 47.32, 91.75, 82.81, 66.28, 57.26, 0.0, 0.0),
        "FL": (89.97, 56.83, 91.83, 82.64, 76.16, 70.63, 27.4, 15.37),
        "CB": (89.23, 52.96, 91.56, 80.44, 71.64, 66.61, 23.08, 9.93),
        "R-FL": (89.47, 54.35, 91.59, 80.39, 72.86, 66.69, 25.0, 14.22),
        "NTR-FL": (90.7, 60.7, 92.37, 82.65, 79.35, 75.34, 39.51, 22.33),
        "DB-0FL": (89.45, 57.98, 91.21, 82.05, 77.33, 71.11, 31.17, 19.05),
        "CB-NTR": (90.74, 63.31, 92.46, 83.28, 78.42, 72.98, 46.32, 32.31),
        "DB": (90.62, 64.47, None, None, None, None, None, None),
    },
}

S1_TABLE_3 = {
    "columns": (
        "micro_f1",
        "macro_f1",
        "1 label micro_f1",
        "1 label macro_f1",
        "2 labels and more micro_f1",
        "2 labels and more macro_f1",
    ),
    "rows": {
        "BCE": (89.14, 47.32, 94.11, 41.44, 76.26, 33.11),
        "FL": (89.97, 56.83, 94.81, 50.33, 77.54, 40.07),
        "CB": (89.23, 52.96, 94.1, 44.72, 77.27, 38.8),
        "R-FL": (89.47, 54.35, 95.21, 47.45, 74.29, 38.79),
        "NTR-FL": (90.7, 60.7, 95.42, 51.33, 78.85, 44.37),
        "DB-0FL": (89.45, 57.98, 94.48, 51.8, 76.63, 42.26),
        "CB-NTR": (90.74, 63.31, 95.17, 51.08, 79.56, 49.94),
        "DB": (90.62, 64.47, 94.49, 54.31, 81.17, 50.12),
    },
}

# S2, "ZLPR": GoEmotions with BERT-base; ranking loss is better when lower.
S2_TABLE_12 = {
    "columns": (
        "subset_accuracy",
        "mlc_f1",
        "micro_f1",
        "macro_f1",
        "average_precision",
        "ranking_loss",
    ),
    "rows": {
        "BCE": (24.96, 31.18, 35.83, 29.77, 53.86, 12.08),
        "FL": (23.92, 32.14, 34.47, 29.09, 51.73, 13.36),
        "DL1": (25.87, 30.56, 35.36, 26.0, 53.65, 13.67),
        "DL2": (29.08, 38.25, 40.49, 30.42, 56.28, 11.67),
        "ZLPR": (27.01, 33.07, 37.72, 31.29, 56.68, 10.23),
    },
}

# S2: in how many of 22 experiments each loss is best.
S2_TABLE_1 = {
    "columns": S2_TABLE_12["columns"],
    "rows": {
        "BCE": (0, 2, 2, 2, 4, 2),
        "FL": (0, 1, 2, 6, 5, 3),
        "DL1": (2, 0, 0, 0, 0, 0),
        "DL2": (4, 10, 13, 6, 0, 0),
        "ZLPR": (16, 9, 5, 8, 13, 18),
    },
}
