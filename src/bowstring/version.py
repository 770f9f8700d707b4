"""The version of this software. A plain name, because asking the installed package takes longer than connecting to a broker."""

VERSION = "0.1.0"
