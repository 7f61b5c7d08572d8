"""Answers that equal the gold and still earn nothing: `echo` and `copied` (the question, handed back), `unworked` and `worked`
(arithmetic left undone), `factored` (too few factors); `reduced` knows the usual final forms.
"""
