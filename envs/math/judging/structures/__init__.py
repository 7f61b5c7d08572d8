"""Values with parts: `listings` (lists, sets, named tuples), `chains` of equal sides, `structures` (matrices), `vectors`."""
