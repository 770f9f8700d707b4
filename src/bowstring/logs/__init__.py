"""Events as lines of a log: standard `logging`, logger `bowstring.broker`, as text or as JSON. Only
commands install handlers.
"""
