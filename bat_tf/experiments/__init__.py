"""Whole runs: settings in a file, a folder of results, a report."""
