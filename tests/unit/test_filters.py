"""Filters: what is understood, what passes, and that whatever is wrong is pointed at."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring import errors
from bowstring.messages import filter_kernels, filters
from bowstring.messages.filter_kernels import passing

MOMENT = pa.timestamp("us", "UTC")
COLUMNS = {
    "key": pa.array([b"a", None, b"customer-1", b"\xff", b""], pa.binary()),
    "attributes": pa.array(
        [[("country", "CH")], None, [("country", "DE"), ("x-y", "1"), ("o'k", "z")], [], [("country", "")]], pa.map_(pa.utf8(), pa.utf8())
    ),
    "created": pa.array([1, 2, 3, 4, 5]).cast(MOMENT),
    "due": pa.array([None, 1, 3, 9, None]).cast(MOMENT),
    "partition": pa.array([2] * 5, pa.int64()),
    "offset": pa.array([11, 12, 13, 14, 15], pa.int64()),
}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("key = 'a'", [0]),
        ("'a' = key", [0]),
        ("'a' < key", [2, 3]),
        ("key <> 'a'", [2, 3, 4]),
        ("NOT key = 'a'", [2, 3, 4]),
        ("key is null", [1]),
        ("key Is Not Null", [0, 2, 3, 4]),
        ("key in ('a', x'ff')", [0, 3]),
        ("key not in ('a', x'FF')", [2, 4]),
        ("key like 'customer-%'", [2]),
        ("key like '_'", [0, 3]),
        ("key not like 'c%'", [0, 3, 4]),
        ("key = ''", [4]),
        ("attributes.country = 'CH'", [0]),
        ("attributes.x-y = '1'", [2]),
        ("attributes['o''k'] = 'z'", [2]),
        ("attributes.country >= 'A'", [0, 2]),
        ("attributes.country in ('CH', 'DE') and not attributes.x-y is null", [2]),
        ("attributes.country = attributes.country", [0, 2, 4]),
        ("created >= '1970-01-01T00:00:00.000004Z'", [3, 4]),
        ("created between '1970-01-01T00:00:00.000002Z' and '1970-01-01T01:00:00.000003+01:00'", [1, 2]),
        ("created > due", [1]),
        ("due in ('1970-01-01T00:00:00.000003Z')", [2]),
        ("due not in ('1970-01-01T00:00:00.000003Z')", [1, 3]),
        ("expires is null", [0, 1, 2, 3, 4]),
        ("expires > '1970-01-01T00:00Z'", []),
        ("not expires > '1970-01-01T00:00Z'", []),
        ("key = 'a' or key is null and created > '1970-01-01T00:00:00.000002Z'", [0]),
        ("(key = 'a' or key is null) and created > '1970-01-01T00:00:00.000001Z'", [1]),
        ("key = 'a' or attributes.nothing = 'x'", [0]),
        ("created > '-1s'", [4]),
        ("offset = 13", [2]),
        ("14 <= offset", [3, 4]),
        ("offset between 12 and 13 or offset in (15, 99)", [1, 2, 4]),
        ("offset not in (11, 12)", [2, 3, 4]),
        ("partition = 2 and offset < 12", [0]),
        ("partition != 2", []),
        ("offset > partition", [0, 1, 2, 3, 4]),
        ("offset is null", []),
    ],
)
def test_what_passes(text: str, rows: list[int]):
    found = passing(filters.parse(text, now=1_000_004), COLUMNS.get, 5)
    assert [row for row in range(5) if found[row]] == rows


@pytest.mark.parametrize(
    ("text", "character", "words"),
    [
        ("", 0, "empty"),
        ("   ", 0, "empty"),
        ("key", 4, "the end is no comparison"),
        ("key =", 6, "the end is no column"),
        ("keyy = 'a'", 1, "'keyy' is no column"),
        ("value = 'a'", 1, "'value' is no column"),
        ("key == 'a'", 6, "'=' is no column"),
        ("key = 5", 7, "write '5'"),
        ("key in (5)", 9, "write '5'"),
        ('key = "a"', 7, "has no meaning here"),
        ("key = 'a", 7, "does not end"),
        ("key = 'a' 'b'", 11, "follows where it could end"),
        ("(key = 'a'", 11, "where '\\)' should"),
        ("key = 'a')", 10, "follows where it could end"),
        ("key in 'a'", 8, "where '\\(' should"),
        ("key in ()", 9, "where a value should"),
        ("key is 'a'", 8, "where 'null' should"),
        ("key between 'a' or 'b'", 17, "where 'and' should"),
        ("key not = 'a'", 9, "is no comparison"),
        ("attributes = 'a'", 1, "stands alone"),
        ("attributes. = 'a'", 13, "no name of an attribute"),
        ("attributes[5] = 'a'", 12, "no name of an attribute"),
        ("created > 'yesterday'", 11, "not a moment"),
        ("created > '2026-11-15T09:00'", 11, "For UTC write"),
        ("created = x'00'", 11, "Only a key is bytes"),
        ("created like 'a%'", 14, "like no text"),
        ("created > 5", 11, "created is a time"),
        ("offset like '1%'", 13, "like no text"),
        ("offset = '17'", 10, "write offset = 17"),
        ("partition in (0, 'a')", 18, "write partition = 17"),
        ("offset = 1.5", 10, "not a whole number"),
        ("offset = 99999999999999999999", 10, "not a whole number"),
        ("offset = created", 8, "different kinds"),
        ("5 = 5", 1, "two values"),
        ("key like x'61'", 10, "Write it as text"),
        ("key = x'6'", 7, "pairs of hexadecimal"),
        ("'a' = 'b'", 1, "two values"),
        ("'a' is null", 1, "compared with nothing"),
        ("created = key", 9, "different kinds"),
        ("key = attributes.a", 5, "different kinds"),
        ("key = 'a' and", 14, "the end is no column"),
        ("key = 'a'; drop", 10, "has no meaning here"),
        ("not " * 60 + "key = 'a'", 201, "nested too deeply"),
        ("key = '" + "a" * 5000 + "'", 0, "5008 characters"),
    ],
)
def test_what_is_wrong_is_pointed_at(text: str, character: int, words: str):
    with pytest.raises(errors.InvalidArgument, match=words) as refusal:
        filters.parse(text)
    assert refusal.value.details.get("character", "0") == str(character)


@given(st.text(alphabet="key atribu.s'x[]()=<>!,05-%nodlikecr\n", max_size=60))
def test_whatever_is_typed_is_understood_or_refused(text: str):
    try:
        tree = filters.parse(text)
    except errors.InvalidArgument:
        return
    assert len(passing(tree, COLUMNS.get, 5)) == 5


PAIRS = st.lists(st.tuples(st.sampled_from(["a", "b", "", "é"]), st.one_of(st.none(), st.sampled_from(["x", "yy", ""]))), max_size=4)


@given(st.lists(st.one_of(st.none(), PAIRS), max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_an_attribute_is_what_arrow_finds_first(rows: list[list[tuple[str, str | None]] | None], first: int, count: int) -> None:
    maps = pa.array(rows, pa.map_(pa.utf8(), pa.utf8())).slice(min(first, len(rows)), count)
    for name in ("a", "b", "", "é", "nothing"):
        expected = pc.map_lookup(maps, pa.scalar(name, pa.utf8()), "first")
        assert filter_kernels._attribute(maps, name).equals(expected)  # pyright: ignore[reportPrivateUsage]


EVEN = st.tuples(st.lists(st.sampled_from(["a", "b", "", "é"]), max_size=3), st.integers(0, 12)).flatmap(
    lambda shape: st.lists(
        st.lists(st.sampled_from(["x", "yy", ""]), min_size=len(shape[0]), max_size=len(shape[0])), min_size=shape[1], max_size=shape[1]
    ).map(lambda rows: [list(zip(shape[0], row, strict=True)) for row in rows])
)


@given(EVEN, st.integers(0, 12), st.integers(0, 12), st.booleans())
def test_an_attribute_is_found_where_all_rows_have_the_same_names(
    rows: list[list[tuple[str, str]]], first: int, count: int, other: bool
) -> None:
    if other and rows and rows[-1]:
        rows[-1][0] = ("b", rows[-1][0][1])
    maps = pa.array(rows, pa.map_(pa.utf8(), pa.utf8())).slice(min(first, len(rows)), count)
    for name in ("a", "b", "", "é", "nothing"):
        expected = pc.map_lookup(maps, pa.scalar(name, pa.utf8()), "first")
        assert filter_kernels._attribute(maps, name).equals(expected)  # pyright: ignore[reportPrivateUsage]


def test_names_of_equal_text_that_are_cut_otherwise_are_told_apart() -> None:
    maps = pa.array([[("ab", "1"), ("c", "2")], [("a", "3"), ("bc", "4")]], pa.map_(pa.utf8(), pa.utf8()))
    assert filter_kernels._attribute(maps, "ab").to_pylist() == ["1", None]  # pyright: ignore[reportPrivateUsage]
    assert filter_kernels._attribute(maps, "a").to_pylist() == [None, "3"]  # pyright: ignore[reportPrivateUsage]
