"""Keeps a caller's topics up to date by waiting at the broker instead of asking for all of them
again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bowstring import times
from bowstring.client import topics
from bowstring.client.sync import Client
from bowstring.client.topics import Topic
from bowstring.wire.codec import HEADER_BYTES_MAX
from bowstring.wire.generated import bowstring_pb2 as pb

# This module belongs to the client and uses its private parts.
# pyright: reportPrivateUsage=false


class TopicWatch:
    """Knows topics as of the last look. It calls `listed` for the topics to follow whenever topics
    were created or deleted.
    """

    def __init__(self, client: Client, listed: Callable[[], Iterable[Topic]]) -> None:
        self._client = client
        self._listed = listed
        self._edition = 0
        self._known: dict[str, Topic] = {}

    def look(self, seconds: float = 0.0) -> dict[str, Topic]:
        """The topics by name as they are now. If nothing is new, it waits up to this long for
        news."""
        requests = list(self._requests())
        for number, request in enumerate(requests):
            last = number == len(requests) - 1  # only the last request of many may wait
            request.wait = times.microseconds(seconds) if last and self._edition else 0
            answer = self._ask(request)
            if answer.edition != self._edition:
                # The list is as new as this edition at least: what has changed in between makes
                # another edition again.
                self._edition = answer.edition
                self._known = {topic.name: topic for topic in self._listed()}
                break
            self._known |= {message.name: topics.from_wire(message) for message in answer.topics}
            seconds = 0.0 if answer.topics else seconds
        return dict(self._known)

    def _requests(self) -> Iterator[pb.WatchTopicsRequest]:
        """The known topics, in as many requests as it takes."""
        request = pb.WatchTopicsRequest(edition=self._edition)
        size = 0
        for topic in self._known.values():
            known = pb.KnownTopic(name=topic.name, id=topic.id, sum=sum(each.start + each.stop for each in topic.ranges))
            size += known.ByteSize() + 4
            if size > HEADER_BYTES_MAX - 64:
                yield request
                request, size = pb.WatchTopicsRequest(edition=self._edition), known.ByteSize() + 4
            request.topics.append(known)
        yield request

    def _ask(self, request: pb.WatchTopicsRequest) -> pb.WatchTopicsAnswer:
        client = self._client._client
        calling = client._connection.call("WatchTopics", request.SerializeToString(), client._timeout)
        return pb.WatchTopicsAnswer.FromString(self._client._thread.run(calling))
