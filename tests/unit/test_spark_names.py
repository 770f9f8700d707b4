"""`bowstring.spark` loads what it names when it is asked for it."""

from __future__ import annotations

import bowstring


def test_the_names_of_spark_are_functions_however_often_they_are_asked_for() -> None:
    for _ in range(2):
        assert callable(bowstring.spark.register)
        assert callable(bowstring.spark.session)
