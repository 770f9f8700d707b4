"""The table of calls: every call of the protocol, once.

gRPC registers its handlers from this table, the gateway serves from it, the transports and the kit
read in it which calls may be repeated, and the protocol page prints it. A call that is not here
does not exist; tests compare the table with the schema.

A lost answer is the reason for most of the columns. A caller that gets no answer cannot tell
whether its call was carried out. Most calls are simply repeated: the second answer is the one that
was lost. Three calls are not like that. The repeat of a `DeletePosition` finds that the position is
gone, because the first attempt has deleted it, and the broker says `NotFound`. `done` names that
error, and a caller that has lost an answer before takes it for success: the error reports the
caller's own work.

Add a field here when a call needs one more property (the right that its caller must have, for
example), not a second list elsewhere.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bowstring import errors


class Call(NamedTuple):
    """One call of the protocol."""

    name: str
    stream: bool = False
    """Messages go both ways until one side ends it; otherwise there is one request and one answer."""
    waits: bool = False
    """The answer may take long on purpose. The broker gives such a call up when it stops."""
    done: type[errors.Error] | None = None
    """The error of a repeat whose earlier attempt has done the work; None if a repeat is answered
    as the first attempt was.
    """

    @property
    def repeatable(self) -> bool:
        """Whether repeating the call gives the same answer and changes nothing more."""
        return self.done is None


CALLS: Final[dict[str, Call]] = {
    call.name: call
    for call in (
        Call("Hello"),
        Call("CreateTopic", done=errors.TopicExists),
        Call("DescribeTopic"),
        Call("ListTopics"),
        Call("WatchTopics", waits=True),
        Call("AlterTopic"),
        Call("DeleteTopic", done=errors.TopicNotFound),
        Call("Publish", stream=True),
        Call("Fetch", stream=True),
        Call("Offsets"),
        Call("CommitPosition"),
        Call("SetPosition"),
        Call("DescribePosition"),
        Call("ListPositions"),
        Call("DeletePosition", done=errors.NotFound),
        Call("Find"),
        Call("DeleteMessages"),
        Call("CancelMessages"),
        Call("MoveMessages"),
        Call("CreateSubscription", done=errors.SubscriptionExists),
        Call("AlterSubscription"),
        Call("DescribeSubscription"),
        Call("ListSubscriptions"),
        Call("DeleteSubscription", done=errors.SubscriptionNotFound),
        Call("SeekSubscription"),
        Call("Peek"),
        Call("ListDeadLetters"),
        Call("Redrive"),
        Call("PurgeDeadLetters"),
        Call("Consume", stream=True),
        Call("ListLeases"),
        Call("ReleaseLeases"),
        Call("ExplainKey"),
        Call("Backup", stream=True),
    )
}
"""By name, in the order of the schema."""


def is_repeatable(name: str) -> bool:
    """Whether the call of this name is repeatable. One that is not in the table is: it does
    nothing.
    """
    return name not in CALLS or CALLS[name].repeatable
