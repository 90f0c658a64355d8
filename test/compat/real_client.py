"""Drives the real lmcache client against a running engine: its own scheduler and worker adapters, with CPU tensors.

    python real_client.py tcp://127.0.0.1:5555 SCENARIO

The adapters are the classes that vLLM's LMCacheMPConnector uses. Paged KV tensors are filled with random numbers,
stored, wiped, retrieved into other pages and compared bit for bit. Prints one JSON line; ends with 1 on a wrong byte.
"""

import importlib.metadata
import inspect
import json
import os
import sys
import time

os.environ.setdefault('LMCACHE_LOG_LEVEL', 'WARNING')

import torch
import zmq
from lmcache.integration.vllm.vllm_multi_process_adapter import (
    LMCacheMPSchedulerAdapter,
    LMCacheMPWorkerAdapter,
    LoadStoreOp,
    ParallelStrategy,
)

lmcache_version = importlib.import_module('lmcache._version').__version__
BLOCK, BLOCKS, LAYERS, HEADS, HEAD = 16, 128, 4, 2, 32
CONFIG = {'lmcache.mp.mp_transfer_mode': 'engine_driven', 'lmcache.mp.mq_timeout': 20, 'lmcache.mp.heartbeat_interval': 1}
if lmcache_version.startswith('0.4.'):
    CONFIG['lmcache.mp.mp_transfer_mode'] = 'data'  # what 0.4.7 calls it


class Recorded:
    """Stands for the device event that older adapters want; CPU tensors need none."""

    def wait(self, stream=None):
        pass


def accepted(call, **arguments):
    """The arguments that this version's call has."""
    known = inspect.signature(call).parameters
    return {name: value for name, value in arguments.items() if name in known}


def strategy(world, rank, mla=False):
    values = dict(mla_only=mla, use_mla=mla, vllm_world_size=world, vllm_worker_id=rank, tp_size=world, pp_size=1,
                  n_servers=1)
    return ParallelStrategy(**accepted(ParallelStrategy, **values))


def scheduler_of(url, model, world=1, mla=False):
    several = 'server_urls' in inspect.signature(LMCacheMPSchedulerAdapter).parameters
    address = [url] if several else url
    context = zmq.Context.instance()
    return LMCacheMPSchedulerAdapter(address, context, model, BLOCK, strategy(world, 0, mla), extra_config=CONFIG)


def worker_of(url, model, world=1, rank=0, mla=False):
    layout = strategy(world, rank, mla)
    worker = LMCacheMPWorkerAdapter(url, zmq.Context.instance(), model, BLOCK, layout, extra_config=CONFIG)
    shape = (BLOCKS, BLOCK, HEADS * HEAD) if mla else (2, BLOCKS, BLOCK, HEADS, HEAD)
    caches = {f'layer.{layer}': torch.zeros(shape, dtype=torch.bfloat16) for layer in range(LAYERS)}
    hints = accepted(worker.register_kv_caches, layout_hints={'kv_layout': 'NHD'})
    worker.register_kv_caches(caches, **hints)
    return worker


def end(scheduler):
    if hasattr(scheduler, 'shutdown'):
        scheduler.shutdown()


def event_of(worker):
    return worker.create_recorded_event() if hasattr(worker, 'create_recorded_event') else Recorded()


def places(cache, blocks):
    """Of the blocks: MLA has no planes for keys and values."""
    return (blocks,) if cache.dim() == 3 else (slice(None), blocks)


def fill(worker, blocks, seed):
    torch.manual_seed(seed)
    for cache in worker.kv_caches.values():
        cache[places(cache, blocks)] = torch.randn_like(cache[places(cache, blocks)])
    return pages(worker, blocks)


def pages(worker, blocks):
    return [cache[places(cache, blocks)].clone() for cache in worker.kv_caches.values()]


def lookup(scheduler, tokens, request, salt=''):
    """Tokens found, polled as the connector does on every scheduler step."""
    scheduler.maybe_submit_lookup_request(request, tokens, cache_salt=salt)
    until = time.monotonic() + 20
    while (found := scheduler.check_lookup_result(request)) is None:
        assert time.monotonic() < until, 'the lookup never came to an end'
        time.sleep(0.002)
    scheduler.cleanup_lookup_result(request)
    return found


def store(worker, tokens, blocks, request, start, end, salt=''):
    op = LoadStoreOp(token_ids=tokens, block_ids=[blocks], start=start, end=end)
    worker.submit_store_request(request, op, event_of(worker), cache_salt=salt)
    assert worker.store_futures[request].result(timeout=20) is True, 'the store was refused'


def retrieve(worker, tokens, blocks, request, start, end, salt=''):
    op = LoadStoreOp(token_ids=tokens, block_ids=[blocks], start=start, end=end)
    worker.submit_retrieve_request(request, op, event_of(worker), cache_salt=salt)
    return worker.retrieve_futures[request][0].result(timeout=20)


def same(left, right):
    for layer, (one, other) in enumerate(zip(left, right, strict=True)):
        assert torch.equal(one.view(torch.int16), other.view(torch.int16)), f'layer {layer} came back with other bytes'


def prompt(seed, tokens):
    return torch.randint(0, 128_000, (tokens,), generator=torch.Generator().manual_seed(seed)).tolist()


def chunk_tokens_of(scheduler):
    return scheduler.num_blocks_per_chunk() * BLOCK


def versions():
    packages = {name: importlib.metadata.version(name) for name in ('torch', 'pyzmq', 'msgspec')}
    return {'python': sys.version.split()[0], 'lmcache': lmcache_version, **packages}


def cycle(url, world=1):
    """Miss, store, hit, retrieve into other pages, partial hit; with `world` workers of one tensor-parallel group."""
    model = f'real/cycle-{world}-{lmcache_version}'
    scheduler = scheduler_of(url, model, world)
    workers = [worker_of(url, model, world, rank) for rank in range(world)]
    size = chunk_tokens_of(scheduler)
    tokens, per_chunk = prompt(1, 3 * size + 40), size // BLOCK
    from_blocks, to_blocks = list(range(3 * per_chunk)), list(range(60, 60 + 3 * per_chunk))
    assert lookup(scheduler, tokens, 'a') == 0
    written = [fill(worker, from_blocks, 10 + rank) for rank, worker in enumerate(workers)]
    for worker in workers[1:]:
        store(worker, tokens, from_blocks, 'a', 0, 3 * size)
    assert world == 1 or lookup(scheduler, tokens, 'early') == 0, 'a hit without all ranks'
    store(workers[0], tokens, from_blocks, 'a', 0, 3 * size)
    scheduler.end_session('a')
    assert lookup(scheduler, tokens, 'b') == 3 * size
    for worker, expected in zip(workers, written):
        assert retrieve(worker, tokens, to_blocks, 'b', 0, 3 * size) is True
        same(pages(worker, to_blocks), expected)
    scheduler.end_session('b')
    other = tokens[:size] + prompt(2, 2 * size)
    assert lookup(scheduler, other, 'c') == size
    for worker, expected in zip(workers, written):
        assert retrieve(worker, other, to_blocks[-per_chunk:], 'c', 0, size) is True
        same(pages(worker, to_blocks[-per_chunk:]), [layer[:, :per_chunk] for layer in expected])
    scheduler.end_session('c')
    for worker in workers:
        worker.shutdown()
    end(scheduler)
    return {'chunks': 3, 'world': world, 'versions': versions()}


def latent(url):
    """MLA on two ranks: the first one stores, both read the one copy."""
    model = f'real/latent-{lmcache_version}'
    scheduler = scheduler_of(url, model, 2, mla=True)
    workers = [worker_of(url, model, 2, rank, mla=True) for rank in range(2)]
    size = chunk_tokens_of(scheduler)
    tokens, per_chunk = prompt(6, 2 * size + 40), size // BLOCK
    from_blocks, to_blocks = list(range(2 * per_chunk)), list(range(64, 64 + 2 * per_chunk))
    written = fill(workers[0], from_blocks, 6)
    store(workers[0], tokens, from_blocks, 'a', 0, 2 * size)
    scheduler.end_session('a')
    assert lookup(scheduler, tokens, 'b') == 2 * size
    for worker in workers:
        assert retrieve(worker, tokens, to_blocks, 'b', 0, 2 * size) is True
        same(pages(worker, to_blocks), written)
    scheduler.end_session('b')
    for worker in workers:
        worker.shutdown()
    end(scheduler)
    return {'chunks': 2, 'readers': len(workers), 'versions': versions()}


def salts(url):
    """What is stored under one salt is neither found nor given out under another."""
    scheduler, worker = scheduler_of(url, f'real/salts-{lmcache_version}'), worker_of(url, f'real/salts-{lmcache_version}')
    size = chunk_tokens_of(scheduler)
    tokens, blocks = prompt(3, size), list(range(size // BLOCK))
    fill(worker, blocks, 3)
    store(worker, tokens, blocks, 'a', 0, size, salt='alice')
    assert lookup(scheduler, tokens, 'b', salt='bob') == 0
    assert retrieve(worker, tokens, blocks, 'b', 0, size, salt='bob') is False
    assert lookup(scheduler, tokens, 'c', salt='alice') == size
    scheduler.free_lookup_locks(tokens, 0, size, 'c', cache_salt='alice')
    scheduler.end_session('c')
    worker.shutdown()
    end(scheduler)
    return {'versions': versions()}


def restart(url):
    """Works on after the engine was killed or stopped and another one runs: says `stored`, waits for a line, and finds
    and reads back all it stored before, without being restarted."""
    model = f'real/restart-{lmcache_version}'
    scheduler, worker = scheduler_of(url, model), worker_of(url, model)
    size = chunk_tokens_of(scheduler)
    tokens, per_chunk = prompt(4, 2 * size), size // BLOCK
    blocks, others = list(range(2 * per_chunk)), list(range(64, 64 + 2 * per_chunk))
    written = fill(worker, blocks, 4)
    store(worker, tokens, blocks, 'a', 0, 2 * size)
    assert lookup(scheduler, tokens, 'b') == 2 * size
    print('stored', flush=True)
    sys.stdin.readline()
    before, until = worker.transfer_ctx, time.monotonic() + 60
    time.sleep(3)  # some heartbeats: whatever they noticed has shown
    while not (worker.is_healthy and scheduler.is_healthy):
        assert time.monotonic() < until, 'the client did not recover'
        time.sleep(0.05)
    found = lookup(scheduler, tokens, 'c')
    assert found == 2 * size, f'{found} of {2 * size} tokens are left'
    assert retrieve(worker, tokens, others, 'c', 0, 2 * size) is True
    same(pages(worker, others), written)
    scheduler.end_session('c')
    longer = tokens + prompt(5, size)
    more = list(range(2 * per_chunk, 3 * per_chunk))
    rest = fill(worker, more, 5)
    store(worker, longer, more, 'd', 2 * size, 3 * size)
    assert lookup(scheduler, longer, 'e') == 3 * size
    assert retrieve(worker, longer, others[:per_chunk], 'e', 2 * size, 3 * size) is True
    same(pages(worker, others[:per_chunk]), rest)
    return {'found': found // size, 'registered_again': worker.transfer_ctx is not before, 'versions': versions()}


SCENARIOS = {'cycle': cycle, 'cycle-2': lambda url: cycle(url, 2), 'salts': salts, 'latent': latent, 'restart': restart}


if __name__ == '__main__':
    print(json.dumps(SCENARIOS[sys.argv[2]](sys.argv[1])), flush=True)
    os._exit(0)  # heartbeat threads would keep the process
