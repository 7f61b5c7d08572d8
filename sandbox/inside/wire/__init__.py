"""Data exchange between processes that do not trust each other: tagged JSON in length-prefixed frames, never pickle.

frames             one JSON object per frame, with limits on bytes, values and depth
encoding           values -> JSON, exact for built-in types; a callback encodes values that are not plain data
decoding           JSON -> values, strict and bounded; only exact built-in types (and arrays) come out
shared_containers  keeps the two copies of an argument or result equal while both sides mutate it
inert_values       stand-ins for plain values that could otherwise influence a comparison
special_methods    names of the special methods (`__add__`, ...) that objects on the other side may have
"""
