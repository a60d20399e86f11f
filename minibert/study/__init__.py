"""For people who look inside: trace every step, compare with the reference, draw, and walk through on a page.

Nothing in the model knows about this package; everything here looks at it from outside.
"""
