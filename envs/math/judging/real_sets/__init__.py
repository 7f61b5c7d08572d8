"""Sets of reals: `regions` reads them from trees, `segments` computes with them, `sets` compares them."""
