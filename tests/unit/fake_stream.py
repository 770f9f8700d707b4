"""A stream to a fake broker, in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from bowstring import errors
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Pieces, Stream, Take, joined

if TYPE_CHECKING:
    from tests.unit.fake_broker import FakeBroker


class FakeStream(Stream):
    """Both ends of a stream."""

    def __init__(self, broker: FakeBroker, method: str) -> None:
        self._requests: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._ends = method == "Consume"
        """Whether the broker looks for the end of the caller's side."""
        self._answers: asyncio.Queue[bytes | errors.Error | None] = asyncio.Queue()
        self._end: errors.Error | None = None
        self._direct = broker.direct
        self._tries = 0
        self._take: Take | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        broker.streams.append(self)
        self._task = asyncio.create_task(self._serve(broker, method))

    async def _serve(self, broker: FakeBroker, method: str) -> None:
        try:
            if broker.down:
                raise errors.Unavailable("nobody is there.")
            serve = {"Publish": broker.publish, "Fetch": broker.fetch, "Consume": broker.consume}[method]
            await serve(self)
            self._put(None)
        except errors.Error as error:
            self._end = error
            self._put(error)

    async def inbound(self) -> Any:
        return await self._requests.get()

    @property
    def is_over(self) -> bool:
        return self._end is not None

    def answer(self, message: bytes) -> None:
        self._put(message)

    def _put(self, answer: bytes | errors.Error | None) -> None:
        self._answers.put_nowait(answer)
        if self._take is not None:
            self._hand_over(self._take)

    def _hand_over(self, take: Take) -> None:
        """Gives all that has come to the caller, in this very step."""
        while not self._answers.empty() and not self._over.done():
            answer = self._answers.get_nowait()
            try:
                if isinstance(answer, errors.Error):
                    raise answer
                if answer is None:
                    self._over.set_result(None)
                else:
                    assert take(answer) is None, "the kit need not wait for anything"
            except Exception as error:
                self._over.set_exception(error)

    async def each(self, take: Take) -> None:
        if not self._direct:
            return await super().each(take)
        self._take = take
        self._hand_over(take)
        await self._over

    def try_write(self, message: Buffer | Pieces) -> bool:
        self._tries += 1
        if not self._direct or self._end is not None or self._tries % 3 == 0:
            return False
        self._requests.put_nowait(joined(message))
        return True

    def cut(self) -> None:
        self._task.cancel()
        self._end = errors.Unavailable("cut")
        self._put(self._end)

    async def write(self, message: Buffer | Pieces) -> None:
        await asyncio.sleep(0)
        if self._end is not None:
            raise self._end
        self._requests.put_nowait(joined(message))

    async def read(self) -> bytes | None:
        answer = await self._answers.get()
        if isinstance(answer, errors.Error):
            raise answer
        return answer

    async def end(self) -> None:
        if self._ends:
            self._requests.put_nowait(None)

    def cancel(self) -> None:
        self.cut()
