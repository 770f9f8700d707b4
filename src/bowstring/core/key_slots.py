"""Slots: which consumer of a key-shared subscription a free key prefers.

A key falls into one of 4,096 slots, and each slot has an owner. Slots are planned by their measured
load. The consumer of a slot that is heavier than a fair share gets nothing else that counts; the
others share the rest evenly. Only slots that have to move do so: those of consumers that have left,
and the surplus of those that have too much. A slot may move at any time, because busy keys finish
where they are.
"""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bowstring.core.keys import NO_OWNER, SLOTS, Owners

Loads = NDArray[np.float64]

UNSEEN: Final = 0.02
"""This part of the load counts as spread over all slots: keys that were not seen yet are shared out,
too."""
OVER: Final = 1.05
"""A consumer that has more than this many fair shares gives some of it away."""
OFF: Final = 1.15
"""A plan is off if a consumer has more than this many fair shares, and another could take some."""


def plan(loads: Loads, owners: Owners, consumers: list[int]) -> Owners:
    """The owners from here on, out of these consumers."""
    if not consumers:
        return np.full(SLOTS, NO_OWNER, np.int16)
    weights = _weights(loads)
    heavy = _heavy(weights, len(consumers))
    planned, held = owners.copy(), dict.fromkeys(consumers, 0.0)
    planned[~np.isin(owners, consumers)] = NO_OWNER
    alone = _place_heavy(heavy, planned, consumers)
    others = [consumer for consumer in consumers if consumer not in alone] or list(alone)
    light = np.ones(SLOTS, np.bool_)
    light[heavy] = False
    fair = float(weights[light].sum()) / len(others)
    planned[light & ~np.isin(planned, others)] = NO_OWNER
    for consumer in others:
        held[consumer] = float(weights[light & (planned == consumer)].sum())
    spare = [*np.flatnonzero(light & (planned == NO_OWNER)).tolist(), *_surplus(weights, planned, light, held, others, fair)]
    _share_out(spare, weights, planned, [(held[consumer], consumer) for consumer in others])
    return planned


def is_off(loads: Loads, owners: Owners, consumers: list[int]) -> bool:
    """Whether another plan is worth its moves: a consumer has too much, or too little."""
    if len(consumers) < 2 or not loads.any():
        return False
    weights = _weights(loads)
    heavy = _heavy(weights, len(consumers))
    alone = set(owners[heavy].tolist())
    if len(alone) < len(heavy):
        return True
    light = np.ones(SLOTS, np.bool_)
    light[heavy] = False
    others = [consumer for consumer in consumers if consumer not in alone]
    fair = float(weights[light].sum()) / max(1, len(others))
    for consumer in consumers:
        share = float(weights[light & (owners == consumer)].sum())
        if (share > (OFF - 1) * fair) if consumer in alone else not 2 - OFF <= share / fair <= OFF:
            return True
    return False


def _weights(loads: Loads) -> Loads:
    total = float(loads.sum())
    return loads + (max(total, 1.0) * UNSEEN / SLOTS)


def _heavy(weights: Loads, consumers: int) -> list[int]:
    """Slots that are more than a fair share of what the heavier ones leave, the heaviest first."""
    heavy, left = list[int](), float(weights.sum())
    for slot in np.argsort(-weights)[: consumers - 1].tolist():
        if weights[slot] <= left / (consumers - len(heavy)):
            break
        heavy.append(slot)
        left -= float(weights[slot])
    return heavy


def _place_heavy(heavy: list[int], planned: Owners, consumers: list[int]) -> set[int]:
    """Gives each heavy slot a consumer of its own: its owner, if no heavier one has that."""
    alone: set[int] = set()
    homeless: list[int] = []
    for slot in heavy:
        owner = int(planned[slot])
        if owner == NO_OWNER or owner in alone:
            homeless.append(slot)
        else:
            alone.add(owner)
    idle = sorted((consumer for consumer in consumers if consumer not in alone), key=lambda one: int((planned == one).sum()))
    for slot, consumer in zip(homeless, idle, strict=False):
        planned[slot] = consumer
        alone.add(consumer)
    return alone


def _surplus(
    weights: Loads, planned: Owners, light: NDArray[np.bool_], held: dict[int, float], others: list[int], fair: float
) -> list[int]:
    """Takes slots away from those that have too much: as few as it needs, the heaviest that fit."""
    taken: list[int] = []
    for consumer in others:
        if held[consumer] <= OVER * fair:
            continue
        slots = np.flatnonzero(light & (planned == consumer))
        for slot in slots[np.argsort(-weights[slots])].tolist():
            over = held[consumer] - fair
            if over <= 0:
                break
            if weights[slot] <= over:
                taken.append(slot)
                planned[slot] = NO_OWNER
                held[consumer] -= float(weights[slot])
    return taken


def _share_out(spare: list[int], weights: Loads, planned: Owners, shares: list[tuple[float, int]]) -> None:
    """The heaviest first, each to the consumer that has least."""
    heapq.heapify(shares)
    for slot in sorted(spare, key=lambda one: -float(weights[one])):
        share, consumer = shares[0]
        planned[slot] = consumer
        heapq.heapreplace(shares, (share + float(weights[slot]), consumer))
