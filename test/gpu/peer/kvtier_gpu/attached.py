"""Attached mode: this process owns its paged KV cache; the engine copies blocks in and out of it."""

from .driver import Driver
from .engine import Engine
from .shapes import KvShape
from .timeline import Timeline


class AttachedPool:
    """
    The paged cache of this process, attached. `pool` says where its blocks lie: see `pool_of`. `layout` names the order of
    the bytes in a block, for others who attach the same model. The memory stays the caller's, who keeps it until `detach`.
    """

    def __init__(
        self,
        engine: Engine,
        pool: dict,
        *,
        model: str,
        layout: str,
        block_tokens: int = 16,
        chunk_tokens: int = 256,
        rank: int = 0,
        ranks: int = 1,
        timeline: Timeline | None = None,
        ttl_seconds: int = 600,
    ):
        self._engine = engine
        chunk_bytes = len(pool['planes']) * pool['block_bytes'] * chunk_tokens // block_tokens
        about = {'model': model, 'chunk_bytes': chunk_bytes, 'layout': layout, 'ranks': ranks}
        engine.ask('POST', '/v1/models', about)
        body = {'model': model, 'ranks': ranks, 'rank': rank, 'ttl_seconds': ttl_seconds, **pool}
        if timeline is not None:
            body['timeline'] = timeline.as_body()
        attached = engine.ask('POST', '/v1/device/pools', body)
        self.pool_id = attached['pool_id']
        self.blocks_per_chunk = attached['blocks_per_chunk']

    def store(self, tokens: list[int], blocks: list[int], **more) -> dict:
        """Whole chunks of the prompt go to L1. `wait` and `signal` are points of the timeline, `cache_salt` the tenant."""
        return self._copy('store', tokens, blocks, more)

    def load(self, tokens: list[int], blocks: list[int], **more) -> dict:
        """What L1 and L2 hold of the prompt comes into the blocks; `tokens` of the answer says how much."""
        return self._copy('load', tokens, blocks, more)

    def renew(self) -> None:
        self._engine.ask('POST', f'/v1/device/pools/{self.pool_id}/renew')

    def detach(self) -> None:
        self._engine.ask('DELETE', f'/v1/device/pools/{self.pool_id}')

    def _copy(self, way: str, tokens: list[int], blocks: list[int], more: dict) -> dict:
        body = {'tokens': tokens, 'blocks': blocks, **more}
        return self._engine.ask('POST', f'/v1/device/pools/{self.pool_id}/{way}', body)


class AttachedCache(AttachedPool):
    """
    A paged cache in the layout of one tensor a layer, [kv, blocks, block tokens, heads, head size], all layers in one
    allocation. `pointer` is where it lies: memory of the caller (torch's, for instance), who keeps it until `detach`.
    """

    def __init__(
        self,
        engine: Engine,
        driver: Driver,
        shape: KvShape,
        *,
        model: str,
        blocks: int,
        block_tokens: int = 16,
        chunk_tokens: int = 256,
        pointer: int,
        timeline: Timeline | None = None,
        ttl_seconds: int = 600,
    ):
        self.shape = shape
        self.block_bytes = shape.plane_token_bytes * block_tokens
        self.plane_bytes = self.block_bytes * blocks
        self.planes = [plane * self.plane_bytes for plane in range(shape.layers * shape.kv)]
        self.pointer = pointer
        handle, offset = driver.share(pointer)
        size = self.plane_bytes * len(self.planes)
        super().__init__(
            engine,
            {
                'allocations': [{'ipc_handle': handle, 'offset': offset, 'bytes': size}],
                'planes': self.planes,
                'block_stride': self.block_bytes,
                'block_bytes': self.block_bytes,
            },
            model=model,
            layout=f'planes {shape.layers}x{shape.kv}x{block_tokens}x{shape.heads}x{shape.head_size} {shape.dtype}',
            block_tokens=block_tokens,
            chunk_tokens=chunk_tokens,
            timeline=timeline,
            ttl_seconds=ttl_seconds,
        )

    @staticmethod
    def bytes_of(shape: KvShape, blocks: int, block_tokens: int = 16) -> int:
        return shape.token_bytes * block_tokens * blocks

    def addresses(self, block: int) -> list[int]:
        """Where the parts of a block lie, plane after plane."""
        return [self.pointer + plane + block * self.block_bytes for plane in self.planes]
