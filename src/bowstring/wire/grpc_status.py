"""Turns errors into gRPC's status codes, and status codes into errors. No other module does.

An error of ours crosses the wire whole (`error_messages`): as the trailing metadata
`bowstring-error-bin` of the call. The status code with it is for software that looks at gRPC alone
(proxies, dashboards, foreign clients), and for choosing the nearest class when the kind is one of a
later version.

Where no error of ours came along (the connection broke, a proxy answered, a limit of gRPC itself
struck) the code is all there is. The question then is whether the call may have been carried out:
`repeatable` says that it does no harm to ask again, and an answer that got lost is `Unavailable`;
else it is `OutcomeUnknown`.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError

from bowstring import errors
from bowstring.wire import error_messages
from bowstring.wire.generated import bowstring_pb2 as pb

METADATA_KEY: Final = "bowstring-error-bin"

# A class that is not here has the code of the nearest one that is, going up the tree.
CODES: Final[dict[type[errors.Error], str]] = {
    errors.Error: "INTERNAL",
    errors.Rejected: "INVALID_ARGUMENT",
    errors.NotFound: "NOT_FOUND",
    errors.OutOfRange: "OUT_OF_RANGE",
    errors.LoginRequired: "UNAUTHENTICATED",
    errors.NotAuthorised: "PERMISSION_DENIED",
    errors.NotSupported: "UNIMPLEMENTED",
    errors.Conflict: "FAILED_PRECONDITION",
    errors.AlreadyExists: "ALREADY_EXISTS",
    errors.LeaseTaken: "ABORTED",
    errors.TransactionEnded: "ABORTED",
    errors.Unavailable: "UNAVAILABLE",
    errors.Full: "RESOURCE_EXHAUSTED",
    errors.QuotaExceeded: "RESOURCE_EXHAUSTED",
    errors.DeadlinePassed: "DEADLINE_EXCEEDED",
    errors.OutcomeUnknown: "UNKNOWN",
    errors.Corrupt: "DATA_LOSS",
}

# The meaning of a code alone. `_foreign` treats missing codes by name, or they are bugs.
_CLASSES: Final[dict[str, type[errors.Error]]] = {
    "INVALID_ARGUMENT": errors.InvalidArgument,
    "NOT_FOUND": errors.NotFound,
    "OUT_OF_RANGE": errors.OutOfRange,
    "UNAUTHENTICATED": errors.LoginRequired,
    "PERMISSION_DENIED": errors.NotAuthorised,
    "UNIMPLEMENTED": errors.NotSupported,
    "FAILED_PRECONDITION": errors.Conflict,
    "ALREADY_EXISTS": errors.AlreadyExists,
    "ABORTED": errors.Conflict,
    "UNAVAILABLE": errors.Unavailable,
    "RESOURCE_EXHAUSTED": errors.Full,
}
_STOPPED: Final = "Cancelling all calls"
"""gRPC's words when a server stops under a call, which may have been carried out."""
_NO_ANSWER: Final = {"DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN"}

# gRPC's words for a missing connection, and ours. The first that fits counts.
_REASONS: Final = {
    "Trying to connect an http1.x server": "a web server listens there, not a broker",
    "Failed parsing HTTP/2": "something listens there that does not speak gRPC, so it is not a broker",
    "before receiving SETTINGS frame": "something listens there but does not answer",
    "Socket closed": "something listens there but hangs up",
    "Connection reset": "something listens there but hangs up",
    "Connection refused": "nothing listens there",
    "Domain name not found": "there is no host of that name",
    "errors resolving": "the name of the host cannot be resolved",
    "Network is unreachable": "there is no way to that network",
    "No route to host": "there is no way to that host",
    "No such file or directory": "there is no such socket",
}

_STATUS_TEXT_MAX: Final = 300
"""In bytes."""


def to_status(error: errors.Error) -> tuple[str, str, bytes]:
    """Gives the name of the code, a text for people, and the error itself as bytes for
    `METADATA_KEY`."""
    code = next(CODES[cls] for cls in type(error).__mro__ if cls in CODES)
    return code, error_messages.cut(str(error), _STATUS_TEXT_MAX), error_messages.to_bytes(error)


def from_status(code: str, text: str, error_bytes: bytes | None = None, *, repeatable: bool = True) -> errors.Error:
    """The error of a call that ended with this code, this text, and these bytes in its trailing
    metadata, if any.
    """
    if error_bytes:
        try:
            message = pb.Error.FromString(error_bytes)
        except DecodeError:
            return _foreign(code, text, repeatable)
        return error_messages.from_message(message, fallback=_CLASSES.get(code, errors.Error))
    return _foreign(code, text, repeatable)


def _foreign(code: str, text: str, repeatable: bool) -> errors.Error:
    """The error of a call for which only gRPC itself has answered."""
    said = f"{code}: {text}" if text else code
    if code == "RESOURCE_EXHAUSTED" and "larger than max" in text:
        return errors.TooLarge(f"the message is larger than the other side takes ({said}).", hint="Split the batch.")
    if code == "UNIMPLEMENTED":
        return errors.NotSupported(f"the other side does not know this call ({said}).", hint="Is it a Bowstring broker, of this version?")
    if code in _NO_ANSWER or (_STOPPED in text and not repeatable):
        if repeatable:
            reason = "there was no answer in time" if code == "DEADLINE_EXCEEDED" else f"there was no answer ({said})"
            return errors.Unavailable(f"{reason}.", hint="Wait and repeat.", details={"reason": reason, "grpc": said})
        return errors.OutcomeUnknown(f"there was no answer ({said}), so it may or may not have been done.", hint="Look, then repeat.")
    if code == "INTERNAL" and "RST_STREAM" in text:
        return errors.Unavailable(f"the connection broke ({said}).", hint="Wait and repeat.")
    if code == "UNAVAILABLE":
        reason = next((words for sign, words in _REASONS.items() if sign in text), said)
        hint = "Is it running, and is the address right?"
        return errors.Unavailable(f"the broker cannot be reached: {reason}.", hint=hint, details={"reason": reason, "grpc": said})
    return _CLASSES.get(code, errors.Error)(f"the call failed ({said}).")
