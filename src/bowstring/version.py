"""The version of this software. A constant, because asking the installed package takes longer than
connecting to a broker.
"""

VERSION = "0.1.0"
