"""The doctor examined: faults put into healthy pairs, and whether the diagnosis names them."""
