"""Statements: equations and inequalities (`statements`), `congruences`, `conditions` after a formula; `linear` expressions."""
