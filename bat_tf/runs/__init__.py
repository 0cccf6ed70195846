"""What `bat-tf train` does: settings, recipes, one run, and grids of runs."""
