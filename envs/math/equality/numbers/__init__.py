"""Values of trees: `exactly` (rationals), `evaluate` and `numeric` (many digits), `integers`, `remainders`."""
