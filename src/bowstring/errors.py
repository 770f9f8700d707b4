"""The errors, shaped by what the caller should do about them.

There is one tree. A `Rejected` call has to be changed, a `Conflict` asks the caller to look at the
state first, `Unavailable` is worth repeating (the kit already did, until the timeout), after
`OutcomeUnknown` the caller repeats with the same id or asks by id, and `Corrupt` is for the
operator. Any other exception is a bug in Bowstring.

Every error says what was wrong and what to do (`hint`), has a `kind` that is the same in every
language and on the wire, and `details` for programs. The kind comes from the class: `TopicNotFound`
is `topic-not-found`. It crosses the wire as it is (`bowstring.wire.error_messages`); nothing here
knows of any transport.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

__all__ = [
    "AlreadyExists",
    "Conflict",
    "Corrupt",
    "DeadlinePassed",
    "Error",
    "Full",
    "InvalidArgument",
    "LeaseLost",
    "LeaseTaken",
    "Leased",
    "LoginRequired",
    "Merged",
    "MessageNotFound",
    "NameInUse",
    "NotAuthorised",
    "NotFound",
    "NotSupported",
    "OutOfRange",
    "OutcomeUnknown",
    "PartlyRefused",
    "QuotaExceeded",
    "Rejected",
    "SubscriptionExists",
    "SubscriptionNotFound",
    "TooLarge",
    "TopicExists",
    "TopicNotFound",
    "TransactionEnded",
    "TransactionNotFound",
    "Unavailable",
    "of_kind",
]


class Error(Exception):
    """The root of all errors that Bowstring raises on purpose."""

    kind: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", details: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{message} {hint}".rstrip())
        self.message = message
        self.hint = hint
        self.details: dict[str, str] = dict(details or {})

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()
        _KINDS[cls.kind] = cls


_KINDS: dict[str, type[Error]] = {"error": Error}


def of_kind(kind: str) -> type[Error]:
    """The class of a kind that came over the wire; a kind that this version does not know is a
    plain `Error`.
    """
    return _KINDS.get(kind, Error)


class Rejected(Error):
    """The call was wrong: change it."""


class InvalidArgument(Rejected, ValueError):
    """An argument has the wrong form or is out of range."""


class TooLarge(Rejected):
    """More bytes than a batch may have here."""


class NotFound(Rejected, LookupError):
    """The named thing does not exist, or the caller may not see it."""


class TopicNotFound(NotFound):
    """There is no such topic."""


class SubscriptionNotFound(NotFound):
    """There is no such subscription."""


class MessageNotFound(NotFound):
    """There is no such message."""


class TransactionNotFound(NotFound):
    """There is no such transaction."""


class OutOfRange(Rejected):
    """An offset or a time before the first kept message, or after the end."""


class LoginRequired(Rejected):
    """The call needs a login."""


class NotAuthorised(Rejected):
    """The user may not do this."""


class NotSupported(Rejected):
    """A version or a feature that the other side does not have."""


class PartlyRefused(Rejected):
    """Some rows of a batch were refused; `answers` says which and why."""

    answers: object = None


class Conflict(Error):
    """The state does not allow the call: look, then decide."""


class AlreadyExists(Conflict):
    """The thing to create exists already."""


class TopicExists(AlreadyExists):
    """The topic exists already."""


class SubscriptionExists(AlreadyExists):
    """The subscription exists already."""


class NameInUse(AlreadyExists):
    """Another user has taken that name."""


class LeaseLost(Conflict):
    """The lease has ended, was settled, or was never held."""


class Leased(Conflict):
    """A consumer holds the message, so its owner may not delete it."""


class Merged(Conflict):
    """The batch is in the merged table, too late for a rollback."""


class LeaseTaken(Conflict):
    """Another consumer holds the lease."""


class TransactionEnded(Conflict):
    """The transaction was decided or has timed out."""


class Unavailable(Error):
    """Wait and repeat. The kit already did, until the timeout."""

    retryable: ClassVar[bool] = True


class Full(Unavailable):
    """The disk or a buffer is full."""


class QuotaExceeded(Unavailable):
    """More than this user may use; `details["retry_after"]` says when to come again."""


class DeadlinePassed(Unavailable):
    """The timeout passed, and it is certain that nothing was stored."""


class OutcomeUnknown(Error):
    """It may or may not have been stored: repeat with the same id, or ask by id."""


class Corrupt(Error):
    """Stored bytes are damaged. The broker never serves them; `bowstring inspect` tells the
    operator more.
    """
