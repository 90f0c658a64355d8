"""Stores and loads KV blocks of the shapes of real models through an engine and compares every byte, in both modes.
Usage: bytes.py --engine HOST:PORT --token ADMIN_TOKEN [--library LIBCUDA] [--chunks N] [--modes attached,managed].
Prints one JSON object a line; exits 0 when all is well. Needs no torch."""

import argparse
import ctypes
import json
import math
import random
import sys
import time

from kvtier_gpu import DEEPSEEK_MLA, LLAMA_3_1_8B, AttachedCache, AttachedPool, Driver, Engine, ManagedCache, pool_of
from kvtier_gpu.timeline import Timeline

SHAPES = {'llama-3.1-8b': LLAMA_3_1_8B, 'deepseek-mla': DEEPSEEK_MLA}
CHUNK_TOKENS = 256
BLOCK_TOKENS = 16


class Blocks:
    """Moves blocks between GPU memory and pinned host memory, a block after the other in that."""

    def __init__(self, driver, stream, host):
        self._driver = driver
        self._stream = stream
        self.host = host

    def fill(self, seed, parts, piece):
        """Queues the writing of random bytes; returns them."""
        content = random.Random(seed).randbytes(len(parts) * piece)
        ctypes.memmove(self.host, content, len(content))  # a slice would be taken byte by byte
        for index, address in enumerate(parts):
            self._driver.copy_in(self._stream, address, self.host, index * piece, piece)
        return content

    def read(self, parts, piece):
        for index, address in enumerate(parts):
            self._driver.copy_out(self._stream, self.host, index * piece, address, piece)
        self._driver.synchronize(self._stream)
        return bytes(memoryview(self.host)[: len(parts) * piece])


def attached(engine, driver, name, shape, chunks):
    stream = driver.stream()
    count = 2 * chunks * CHUNK_TOKENS // BLOCK_TOKENS
    half = count // 2
    pointer = driver.allocate(AttachedCache.bytes_of(shape, count))
    timeline = Timeline(driver, stream)
    model = f'{name}/attached'
    cache = AttachedCache(engine, driver, shape, model=model, blocks=count, pointer=pointer, timeline=timeline)
    order = random.Random(1).sample(range(count), count)
    source, target = order[:half], order[half:]
    data = Blocks(driver, stream, driver.pinned(shape.token_bytes * chunks * CHUNK_TOKENS))
    parts = [address for block in source for address in cache.addresses(block)]
    content = data.fill(name, parts, cache.block_bytes)
    tokens = [(7 * i + 3) % 50_000 for i in range(chunks * CHUNK_TOKENS)]
    # Nothing is waited for here: the store waits for the word that the stream writes.
    started = time.perf_counter()
    stored = cache.store(tokens, source, wait=timeline.mark())
    stored_at = time.perf_counter()
    signal = timeline.expect()
    timeline.wait(signal)
    loaded = cache.load(tokens, target, signal=signal)
    loaded_at = time.perf_counter()
    back = data.read([address for block in target for address in cache.addresses(block)], cache.block_bytes)
    result = {
        'check': 'attached',
        'model': name,
        'chunks': chunks,
        'bytes': loaded['bytes'],
        'storeSeconds': round(stored_at - started, 4),
        'loadSeconds': round(loaded_at - stored_at, 4),
        'deviceSeconds': [stored['busy_seconds'], loaded['busy_seconds']],
        'fine': stored['chunks'] == chunks and loaded['chunks'] == chunks and back == content,
    }
    cache.detach()
    timeline.close()
    driver.free(pointer)
    return result


class LayerTensor:
    """The KV tensor of one layer as vLLM allocates it, [kv, blocks, block tokens, heads, head size], without torch."""

    def __init__(self, driver, shape, blocks):
        self.shape = (shape.kv, blocks, BLOCK_TOKENS, shape.heads, shape.head_size)
        self._element_bytes = shape.plane_token_bytes // (shape.heads * shape.head_size)
        self.pointer = driver.allocate(math.prod(self.shape) * self._element_bytes)

    def data_ptr(self):
        return self.pointer

    def element_size(self):
        return self._element_bytes

    def stride(self):
        return [math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]


def layers(engine, driver, name, shape, chunks):
    """As `attached`, with an allocation for each layer, and waiting for each answer instead of for words."""
    stream = driver.stream()
    count = 2 * chunks * CHUNK_TOKENS // BLOCK_TOKENS
    tensors = [LayerTensor(driver, shape, count) for _ in range(shape.layers)]
    pool = pool_of(driver, tensors, count)
    cache = AttachedPool(engine, pool, model=f'{name}/layers', layout='one tensor a layer', block_tokens=BLOCK_TOKENS)
    order = random.Random(2).sample(range(count), count)
    source, target = order[: count // 2], order[count // 2 :]
    piece = pool['block_bytes']
    data = Blocks(driver, stream, driver.pinned(shape.token_bytes * chunks * CHUNK_TOKENS))

    def parts(blocks):
        planes = [(tensor.pointer, kv) for tensor in tensors for kv in range(shape.kv)]
        return [at + (kv * count + block) * piece for block in blocks for at, kv in planes]

    content = data.fill(name, parts(source), piece)
    driver.synchronize(stream)
    tokens = [(11 * i + 5) % 50_000 for i in range(chunks * CHUNK_TOKENS)]
    stored = cache.store(tokens, source)
    loaded = cache.load(tokens, target)
    back = data.read(parts(target), piece)
    result = {
        'check': 'layers',
        'model': name,
        'chunks': chunks,
        'allocations': len(tensors),
        'bytes': loaded['bytes'],
        'deviceSeconds': [stored['busy_seconds'], loaded['busy_seconds']],
        'fine': stored['chunks'] == chunks and loaded['chunks'] == chunks and back == content,
    }
    cache.detach()
    for tensor in tensors:
        driver.free(tensor.pointer)
    return result


def managed(engine, driver, name, shape, chunks):
    stream = driver.stream()
    timeline = Timeline(driver, stream)
    cache = ManagedCache(engine, driver, shape, model=f'{name}/managed', timeline=timeline)
    data = Blocks(driver, stream, driver.pinned(shape.token_bytes * chunks * CHUNK_TOKENS))
    tokens = [(5 * i + 1) % 50_000 for i in range(chunks * CHUNK_TOKENS)]
    first = cache.take(tokens, extra_tokens=1)
    whole = first.blocks[:-1]
    content = data.fill(name, [cache.address(block) for block in whole], cache.block_bytes)
    stored = cache.commit(first, wait=timeline.mark())
    cache.release(first)
    second = cache.take(tokens)
    is_reused = second.cached_tokens == len(tokens) and second.blocks == whole
    cache.release(second)
    # L0 forgets them: they come back from L1.
    engine.ask('POST', '/v1/clear', {'model': f'{name}/managed', 'tiers': ['l0']})
    started = time.perf_counter()
    third = cache.take(tokens)
    taken_at = time.perf_counter()
    back = data.read([cache.address(block) for block in third.blocks], cache.block_bytes)
    result = {
        'check': 'managed',
        'model': name,
        'chunks': chunks,
        'watched': cache.is_watched,
        'tensor': cache.tensor_shape,
        'takeSeconds': round(taken_at - started, 4),
        'fine': stored == chunks and is_reused and third.cached_tokens == len(tokens) and back == content,
    }
    cache.release(third)
    cache.close()
    timeline.close()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--engine', required=True)
    parser.add_argument('--token', default='')
    parser.add_argument('--library', default='')
    parser.add_argument('--chunks', type=int, default=1)
    parser.add_argument('--modes', default='attached')
    parser.add_argument('--models', default=','.join(SHAPES))
    options = parser.parse_args()
    driver = Driver(options.library)
    engine = Engine(options.engine, options.token)
    print(json.dumps({'device': driver.name, 'driver': driver.version, 'simulated': driver.is_stand_in}), flush=True)
    checks = {'attached': attached, 'layers': layers, 'managed': managed}
    is_fine = True
    for mode in options.modes.split(','):
        for name in options.models.split(','):
            result = checks[mode](engine, driver, name, SHAPES[name], options.chunks)
            is_fine = is_fine and result['fine']
            print(json.dumps(result), flush=True)
    sys.exit(0 if is_fine else 1)


if __name__ == '__main__':
    main()
