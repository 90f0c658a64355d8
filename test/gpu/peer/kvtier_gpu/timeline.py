"""Words of GPU memory by which kernels of this process and copies of the engine wait for each other."""

from .driver import Driver

WORDS = 8
_WORD_BYTES = 8
# A smaller allocation may lie in one block with others, and a handle shares the whole block.
_SHARED_BYTES = 2 << 20


class Timeline:
    """`DONE` is written by this process, `COPIED` by the engine; each value is higher than the one before."""

    DONE = 0
    COPIED = 1

    def __init__(self, driver: Driver, stream: int):
        self._driver = driver
        self._stream = stream
        self._pointer = driver.allocate(_SHARED_BYTES)
        self._values = [0] * WORDS
        zeros = driver.pinned(WORDS * _WORD_BYTES)
        driver.copy_in(stream, self._pointer, zeros, 0, WORDS * _WORD_BYTES)
        driver.synchronize(stream)
        self._host = zeros

    def as_body(self) -> dict:
        handle, offset = self._driver.share(self._pointer)
        return {'ipc_handle': handle, 'offset': offset, 'words': WORDS}

    def mark(self, stream: int | None = None) -> dict:
        """A point that is reached once what is on the stream now is done."""
        point = self._next(self.DONE)
        self._driver.write_word(self._on(stream), self._at(self.DONE), point['value'])
        return point

    def expect(self) -> dict:
        """A point for the engine to signal."""
        return self._next(self.COPIED)

    def wait(self, point: dict, stream: int | None = None) -> None:
        """What follows on the stream waits for the engine's signal."""
        self._driver.wait_word(self._on(stream), self._at(point['word']), point['value'])

    def value(self, word: int) -> int:
        """What the word is now; 2^52 and more says that the copy failed."""
        self._driver.copy_out(self._stream, self._host, 0, self._at(word), _WORD_BYTES)
        self._driver.synchronize(self._stream)
        return int.from_bytes(bytes(self._host[:_WORD_BYTES]), 'little')

    def close(self) -> None:
        self._driver.free(self._pointer)

    def _next(self, word: int) -> dict:
        self._values[word] += 1
        return {'word': word, 'value': self._values[word]}

    def _at(self, word: int) -> int:
        return self._pointer + word * _WORD_BYTES

    def _on(self, stream: int | None) -> int:
        return self._stream if stream is None else stream
