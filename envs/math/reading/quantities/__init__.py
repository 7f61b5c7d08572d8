"""Grammar of numbers, units and degrees: `literals`, `quantities`, `degrees`."""
