"""A prompt is prefilled by one process and its KV stored through the engine; the process ends, and another one loads it
back and goes on: the same logits, and how long each took to its first token. Needs torch, of the CPU for the tests' driver.
Usage: demo.py --engine HOST:PORT --token ADMIN_TOKEN [--library LIBCUDA] [--size small] [--tokens N] [--mode attached].
Prints one JSON object; exits 0 when the logits are the same, bit for bit. Each process does its part --repeats times
and tells the median."""

import argparse
import array
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

CHUNK_TOKENS = 256
BLOCK_TOKENS = 16
# Computed by both: the tokens after the cached ones, by kernels of the same shapes.
TAIL_TOKENS = 16
PREFILL_TOKENS = 2048
FIRST = ('firstTokenSeconds', 'firstTokenRounds')


class Cache:
    """The paged cache in either mode, as the decoder wants it."""

    def __init__(self, options, driver, engine, shape, tokens):
        from kvtier_gpu import AttachedCache, ManagedCache
        from kvtier_gpu.tensors import attached_view, bytes_at, managed_view, new_pool

        whole = tokens[:-TAIL_TOKENS]
        model = f'demo/{options.size}/{options.mode}'
        self._whole = whole
        self._engine = engine
        self._model = model
        if options.mode == 'attached':
            count = -(-len(tokens) // BLOCK_TOKENS)
            pointer, memory = new_pool(driver, AttachedCache.bytes_of(shape, count, BLOCK_TOKENS))
            self._cache = AttachedCache(engine, driver, shape, model=model, blocks=count, pointer=pointer)
            self.blocks = list(range(count))
            self.tensor = attached_view(memory, shape, BLOCK_TOKENS)
        else:
            self._cache = ManagedCache(engine, driver, shape, model=model)
            memory = bytes_at(driver, self._cache.pointer, self._cache.pool_bytes)
            self.tensor = managed_view(memory, shape, self._cache.tensor_shape)
            self._hold = None

    def load(self):
        """Cached tokens, which are in their blocks now."""
        if hasattr(self._cache, 'load'):
            return self._cache.load(self._whole, self._blocks_of_whole())['tokens']
        self._hold = self._cache.take(self._whole, extra_tokens=TAIL_TOKENS)
        self.blocks = self._hold.blocks
        return self._hold.cached_tokens

    def forget(self):
        """Nothing is left of an earlier round but what is in L1."""
        if getattr(self, '_hold', None) is not None:
            self._cache.release(self._hold)
            self._engine.ask('POST', '/v1/clear', {'model': self._model, 'tiers': ['l0']})

    def store(self):
        if hasattr(self._cache, 'store'):
            self._cache.store(self._whole, self._blocks_of_whole())
        else:
            self._cache.commit(self._hold)

    def close(self):
        if hasattr(self._cache, 'detach'):
            self._cache.detach()
        else:
            self._cache.close()

    def _blocks_of_whole(self):
        return self.blocks[: len(self._whole) // BLOCK_TOKENS]


def worker(options):
    """One process: takes what is cached, computes the rest, stores it."""
    # Memory that can be shared, whatever this torch does of itself.
    os.environ.setdefault('PYTORCH_CUDA_ALLOC_CONF', 'expandable_segments:False')
    import torch
    from decoder import SIZES, Decoder
    from kvtier_gpu import Driver, Engine

    driver = Driver(options.library)
    device = 'cpu' if driver.is_stand_in else 'cuda'
    settle = torch.cuda.synchronize if device == 'cuda' else lambda: None
    if device == 'cpu':
        torch.set_num_threads(1)
    torch.manual_seed(0)
    decoder = Decoder(SIZES[options.size], device)
    tokens = torch.randint(0, SIZES[options.size].vocabulary, (options.tokens + TAIL_TOKENS,)).tolist()
    cache = Cache(options, driver, Engine(options.engine, options.token), SIZES[options.size].kv_shape, tokens)
    # Warms up the kernels of both shapes, in a cache of its own.
    warm = min(PREFILL_TOKENS, options.tokens)
    spare = torch.zeros_like(cache.tensor[:, :, : warm // BLOCK_TOKENS])
    for count in (warm, TAIL_TOKENS):
        decoder.run(tokens[:count], 0, spare, list(range(warm // BLOCK_TOKENS)))
    del spare
    loads, firsts = [], []
    for _ in range(options.repeats):
        cache.forget()
        settle()
        started = time.perf_counter()
        cached = cache.load()
        loads.append(time.perf_counter() - started)
        for start in range(cached, options.tokens, PREFILL_TOKENS):
            end = min(start + PREFILL_TOKENS, options.tokens)
            decoder.run(tokens[start:end], start, cache.tensor, cache.blocks)
        logits = decoder.run(tokens[options.tokens :], options.tokens, cache.tensor, cache.blocks)
        settle()
        firsts.append(time.perf_counter() - started)
    first_at = time.perf_counter()
    if cached < options.tokens:
        cache.store()
    stored_at = time.perf_counter()
    cache.close()
    with open(options.logits, 'wb') as file:
        array.array('f', logits.tolist()).tofile(file)
    print(
        json.dumps(
            {
                'cachedTokens': cached,
                'loadSeconds': round(statistics.median(loads), 4),
                'firstTokenSeconds': round(statistics.median(firsts), 4),
                'firstTokenRounds': [round(seconds, 4) for seconds in firsts],
                'storeSeconds': round(stored_at - first_at, 4),
                'device': 'simulated device, torch on the CPU' if driver.is_stand_in else driver.name,
                'torch': torch.__version__,
            }
        )
    )


NAMES = ('engine', 'token', 'library', 'size', 'mode')


def run_worker(options, logits):
    argv = [f'--{name}={getattr(options, name)}' for name in (*NAMES, 'tokens', 'repeats')]
    done = subprocess.run(
        [sys.executable, __file__, *argv, f'--logits={logits}'], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def read_floats(path):
    values = array.array('f')
    with open(path, 'rb') as file:
        values.frombytes(file.read())
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--engine', required=True)
    parser.add_argument('--token', default='')
    parser.add_argument('--library', default='')
    parser.add_argument('--size', default='small')
    parser.add_argument('--tokens', type=int, default=4 * CHUNK_TOKENS, help='a multiple of 256')
    parser.add_argument('--repeats', type=int, default=1)
    parser.add_argument('--mode', default='attached', choices=['attached', 'managed'])
    parser.add_argument('--logits', default='', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.logits:
        worker(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ('first', 'second')]
        first, second = (run_worker(options, name) for name in files)
        logits = [read_floats(name) for name in files]
    is_same = logits[0].tobytes() == logits[1].tobytes()
    result = {
        'check': 'demo',
        'mode': options.mode,
        'size': options.size,
        'tokens': options.tokens,
        'device': first['device'],
        'torch': first['torch'],
        'prefill': {name: first[name] for name in ('cachedTokens', *FIRST, 'storeSeconds')},
        'loaded': {name: second[name] for name in ('cachedTokens', *FIRST, 'loadSeconds')},
        'sameLogits': is_same,
        'largestDifference': max(abs(a - b) for a, b in zip(*logits, strict=True)),
        'fine': is_same and first['cachedTokens'] == 0 and second['cachedTokens'] == options.tokens,
    }
    print(json.dumps(result))
    sys.exit(0 if result['fine'] else 1)


if __name__ == '__main__':
    main()
