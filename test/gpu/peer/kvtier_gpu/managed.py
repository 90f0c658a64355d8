"""Managed mode: the engine owns the paged KV cache; this process maps it and borrows blocks of it."""

import os
from dataclasses import dataclass

from .driver import Driver
from .engine import Engine, EngineError
from .shapes import KvShape
from .timeline import Timeline


@dataclass
class Hold:
    """Blocks for a prompt. The first `cached_tokens` tokens are in theirs already."""

    hold_id: str
    blocks: list[int]
    cached_tokens: int


class ManagedCache:
    """
    The engine's pool as one tensor, `self.tensor_shape`: [blocks, layers, kv, block tokens, heads, head size].

    When the engine was started anew, `take` opens its new pool by itself: `generation` tells that `pointer` is another
    one, and holds of before are void. What L1 and L2 kept is found again.
    """

    def __init__(
        self,
        engine: Engine,
        driver: Driver,
        shape: KvShape,
        *,
        model: str,
        admin: Engine | None = None,
        timeline: Timeline | None = None,
        ttl_seconds: int = 30,
    ):
        self._engine = engine
        self._admin = admin or engine
        self._driver = driver
        self._body = {'model': model, 'shape': shape.as_body(), 'process': _this_process(), 'ttl_seconds': ttl_seconds}
        self._timeline = timeline
        self.shape = shape
        self.pointer = 0
        self.generation = 0
        self.open()

    def open(self) -> None:
        """Asks for the pool, which needs an admin token, and maps it in place of the one before."""
        body = dict(self._body)
        if self._timeline is not None:
            body['timeline'] = self._timeline.as_body()
        given = self._admin.ask('POST', '/v1/device/borrowers', body)
        if self.pointer:
            self._driver.close_shared(self.pointer)
        self.borrower_id = given['borrower_id']
        self.is_watched = given['watched']
        self.block_bytes = given['block_bytes']
        self.block_tokens = given['block_tokens']
        self.pool_bytes = given['pool_bytes']
        self.tensor_shape = given['shape']
        self.pointer = self._driver.open_shared(given['ipc_handle'])
        self.generation += 1

    def take(self, tokens: list[int], *, extra_tokens: int = 0, cache_salt: str = '') -> Hold:
        body = {'tokens': tokens, 'extra_tokens': extra_tokens, 'cache_salt': cache_salt}
        try:
            given = self._ask('POST', 'blocks', body)
        except (EngineError, ConnectionError) as error:
            if isinstance(error, EngineError) and error.status != 404:
                raise
            self.open()
            given = self._ask('POST', 'blocks', body)
        return Hold(given['hold_id'], given['blocks'], given['cached_tokens'])

    def commit(self, hold: Hold, wait: dict | None = None) -> int:
        """The blocks of whole chunks are filled, or will be at `wait`: chunks that are in L1 then, newly."""
        body = {} if wait is None else {'wait': wait}
        return self._ask('POST', f'blocks/{hold.hold_id}/commit', body)['chunks']

    def release(self, hold: Hold) -> None:
        self._ask('DELETE', f'blocks/{hold.hold_id}')

    def renew(self) -> None:
        """To be called more often than the time to live, in which nothing else is asked."""
        self._ask('POST', 'renew')

    def close(self) -> None:
        """Kernels that touch the pool must have ended."""
        self._driver.close_shared(self.pointer)
        self.pointer = 0
        self._engine.ask('DELETE', f'/v1/device/borrowers/{self.borrower_id}')

    def address(self, block: int) -> int:
        return self.pointer + block * self.block_bytes

    def _ask(self, method: str, path: str, body: dict | None = None) -> dict:
        return self._engine.ask(method, f'/v1/device/borrowers/{self.borrower_id}/{path}', body)


def _this_process() -> dict:
    """How the engine knows this very process again, to see when it is gone."""
    with open('/proc/self/stat', encoding='latin1') as stat:
        fields = stat.read().rpartition(')')[2].split()
    return {'pid': os.getpid(), 'start_ticks': int(fields[19])}
