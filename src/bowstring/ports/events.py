"""The events of a broker, for its observers.

An event has a name from the table below, and fields: `observer.note("topic-created",
topic="orders", partitions=4)`. The broker does not know what observers do with it. `bowstring.logs`
writes log lines; counters could use the same events.

The table has the level of each event, its words in a log line, and its meaning for the reader.
Events that can come in great numbers name the fields that tell them apart (`alike`): the log has
the first of them at once, and then their number. An event that is not in the table is a bug.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple, Protocol

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR


class Kind(NamedTuple):
    """One line of the table."""

    level: int
    message: str
    meaning: str
    alike: tuple[str, ...] | None = None
    """For events that can come in great numbers: those with the same values of these fields are
    counted together.
    """


EVENTS: Final[dict[str, Kind]] = {
    "broker-started": Kind(
        INFO, "the broker serves", "Clients can connect. `loading_seconds` is how long it took to load the data from the disk."
    ),
    "broker-stopped": Kind(INFO, "the broker has stopped", "It ended well; `reason` is a signal, or the call of the program around it."),
    "broker-failed": Kind(
        ERROR,
        "the broker has ended, because its disk failed",
        "A sync or a write failed (`cause`). Everything acknowledged is on the disk. Check the disk, then start again.",
    ),
    "open-to-all": Kind(
        WARNING,
        "anyone who reaches this address can read and write: there is no login",
        "`listen` is not an address of this machine alone. Bind it to 127.0.0.1, or let a firewall decide who reaches it.",
    ),
    "few-open-files": Kind(
        WARNING,
        "this process may open few files for so many streams",
        "Raise the limit with `ulimit -n` (`LimitNOFILE=` in a unit), or lower `connections.max`.",
    ),
    "topic-created": Kind(INFO, "a topic was created", "`client` is the address that asked for it."),
    "topic-altered": Kind(INFO, "a topic was altered", "The fields are its settings from now on."),
    "topic-deleted": Kind(INFO, "a topic was deleted", "With `messages` messages; `client` is the address that asked for it."),
    "subscription-created": Kind(
        INFO, "a subscription was created", "`client` is the address that asked for it: by a call, or by a consumer that found none."
    ),
    "subscription-altered": Kind(INFO, "a subscription was altered", "The fields are its settings from now on."),
    "subscription-sought": Kind(
        INFO, "a subscription was set to another place", "The fields say how many messages come again or are skipped."
    ),
    "subscription-deleted": Kind(INFO, "a subscription was deleted", "With all its leases; `client` is the address that asked for it."),
    "dead-letters-redriven": Kind(INFO, "dead letters were sent back", "Only to the subscription that they came from."),
    "dead-letters-purged": Kind(INFO, "dead letters were deleted", "`client` is the address that asked for it."),
    "disk-full": Kind(
        WARNING,
        "the disk is full: publishes are refused, reading goes on",
        "Free some space, or shorten the retention of a topic. Nothing has to be started again.",
    ),
    "disk-free": Kind(INFO, "the disk has room again: publishes are accepted", "It was full for `seconds`."),
    "fenced": Kind(
        WARNING,
        "another incarnation has taken over; loading again",
        "Another process has raised the epoch in the catalog, as a second broker on the same data would. Is there one?",
    ),
    "loaded-again": Kind(INFO, "the broker has loaded again and serves", "After `disk-full` or `fenced`, in the same process."),
    "page-damaged": Kind(
        ERROR,
        "stored bytes are damaged, and are not served",
        "Readers of these offsets get `Corrupt`. `bowstring inspect --verify` shows the extent; check the disk.",
        ("topic", "partition"),
    ),
    "client-refused": Kind(
        WARNING,
        "a client was refused by a limit",
        "The setting `limit` is reached. Raise it, or find out why there are so many streams.",
        ("limit",),
    ),
    "connection-refused": Kind(
        WARNING,
        "a connection was ended: its peer does not speak the protocol",
        "`problem` says how it breaks the rules. A wrong port, a port scanner, or a client with a bug.",
        ("problem",),
    ),
    "upkeep-postponed": Kind(
        WARNING,
        "a piece of upkeep is given up for now, and tried again",
        "`problem` says why: a full disk or damaged bytes. No acknowledged message is affected.",
        ("work",),
    ),
    "client-connected": Kind(
        DEBUG,
        "a client has said hello",
        "`name` is the client's name for itself (`connect(name=…)`), `transport` is `native` or `grpc`.",
    ),
    "stream-opened": Kind(
        DEBUG, "a stream was opened", "A producer (`Publish`), a reader (`Fetch`), a consumer (`Consume`) or a backup of `client`."
    ),
    "stream-closed": Kind(DEBUG, "a stream has ended", "Of `client`; `streams` are left."),
    "call-refused": Kind(DEBUG, "a call was refused", "`problem` is the error that the client got."),
    "journal-sealed": Kind(DEBUG, "the journal was sealed", "Its rows have become extents and snapshots."),
}


class Observer(Protocol):
    """Receives events, at once and on the broker's loop. It must not wait."""

    def note(self, event: str, /, **fields: object) -> None: ...


class Unobserved:
    """An observer that ignores all events."""

    def note(self, event: str, /, **fields: object) -> None:
        """Does nothing."""


UNOBSERVED: Final = Unobserved()
