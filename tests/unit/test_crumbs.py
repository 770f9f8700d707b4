"""Crumbs: a small grant waits for a while if its consumer holds plenty."""

from __future__ import annotations

from bowstring.broker.queue.crumbs import CRUMBS_MICROSECONDS, PLENTY, Crumbs


def test_only_a_few_rows_beside_plenty_are_left():
    crumbs = Crumbs[str]()
    assert not crumbs.are_left("ada", 10, held=10 * PLENTY, now=0)
    assert crumbs.next_look is None
    assert crumbs.are_left("ada", 10, held=10 * PLENTY + 1, now=0)
    assert crumbs.next_look == CRUMBS_MICROSECONDS


def test_what_was_left_is_granted_when_it_has_waited_long_enough():
    crumbs = Crumbs[str]()
    assert crumbs.are_left("ada", 1, held=100, now=7)
    assert crumbs.are_left("ada", 2, held=100, now=6 + CRUMBS_MICROSECONDS)
    assert not crumbs.are_left("ada", 3, held=100, now=7 + CRUMBS_MICROSECONDS)
    crumbs.granted("ada")
    assert crumbs.are_left("ada", 1, held=100, now=7 + CRUMBS_MICROSECONDS)


def test_the_next_look_is_for_the_one_that_has_waited_longest():
    crumbs = Crumbs[str]()
    assert crumbs.are_left("ada", 1, held=100, now=5)
    assert crumbs.are_left("bob", 1, held=100, now=9)
    assert crumbs.next_look == 5 + CRUMBS_MICROSECONDS
    crumbs.looked()
    assert crumbs.next_look is None


def test_a_consumer_that_has_left_waits_for_nothing():
    crumbs = Crumbs[str]()
    assert crumbs.are_left("ada", 1, held=100, now=0)
    crumbs.forget(lambda place: place == "ada")
    assert crumbs.are_left("ada", 1, held=100, now=CRUMBS_MICROSECONDS)
