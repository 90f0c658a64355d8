"""Drives SGLang's radix cache and lmcache's connector for it, unmodified, against a running engine (sglang_server.py).

    python sglang_client.py tcp://127.0.0.1:5555 http://127.0.0.1:8080 SCENARIO[,SCENARIO...]

Prints one JSON line a scenario; ends with 1 on a wrong byte or a wrong count. Scenarios that wait for the engine to be stopped
print a line and read one. The HTTP API tells what the engine still holds for its clients.
"""

import importlib.metadata
import json
import os
import sys
import time
import urllib.request

from sglang_server import PATIENCE_SECONDS, Server, prompt

import torch.distributed as dist

MHA_AND_MLA = [(kind, page) for kind in ('mha', 'mla') for page in (1, 16, 64)]


def status(http):
    with urllib.request.urlopen(f'{http}/status') as answer:
        return json.load(answer)


def holds(http):
    """What the engine holds for requests: leases, and sessions of the wire."""
    now = status(http)
    return now['l1']['openLeases'], now['mp']['sessions']


def until(what, reached):
    end = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        assert time.monotonic() < end, f'never: {what}'
        time.sleep(0.02)


def until_free(http):
    until('nothing is held', lambda: holds(http) == (0, 0))


def told(line):
    """Says so, and waits for the test to do its part."""
    print(line, flush=True)
    sys.stdin.readline()


def cycle(url, http):
    """Miss, resident hit, evicted and loaded, partial hits; by kind of attention and page size."""
    for kind, page in MHA_AND_MLA:
        server = Server(url, f'sglang/cycle-{kind}-{page}', page, kind)
        size, tokens = server.chunk, prompt(1, 3 * server.chunk + 40)
        whole = 3 * size + 40 // page * page - (1 if page == 1 else 0)
        assert server.run('a', tokens) == [0, 0]
        assert server.run('b', tokens)[0] >= whole - page, 'the tree has it'
        server.forget()
        assert server.run('c', tokens) == [0, 3 * size]
        server.forget()
        assert server.run('d', tokens[:size] + prompt(2, 300)) == [0, size], 'the first chunk is the same'
        server.forget()
        # Resident up to a page within the second chunk: that chunk is fetched, and written only from there on.
        first = server.run('e', tokens[:size + 100])
        assert first == [0, size]
        resident, loaded = server.run('f', tokens)
        assert 0 < resident - size <= 100 and resident + loaded == 3 * size, (resident, loaded)
        server.forget()
        assert server.run('g', tokens) == [0, 3 * size]
        until_free(http)
        server.close()
    return {'pools': len(MHA_AND_MLA)}


def keys(url, http):
    """Salts and extra keys (of LoRA adapters, say) keep requests apart, in the tree and in the engine."""
    server = Server(url, 'sglang/keys')
    tokens, size = prompt(3, 2 * server.chunk + 20), server.chunk
    kinds = [(None, None), ('alice', None), ('bob', None), (None, 'lora-1'), ('alice', 'lora-1')]
    for index, (salt, extra) in enumerate(kinds):
        assert server.run(f'a{index}', tokens, salt, extra) == [0, 0]
    server.forget()
    for index, (salt, extra) in enumerate(kinds):
        assert server.run(f'b{index}', tokens, salt, extra) == [0, 2 * size]
    until_free(http)
    server.close()
    return {'keys': len(kinds)}


def steps(url, http):
    """A request that stores more than once, and one that stores without having been looked up."""
    server = Server(url, 'sglang/steps')
    size, tokens = server.chunk, prompt(4, 3 * server.chunk)
    req = server.ask('a', tokens)
    server.answer(req)
    server.admit(req)
    server.cache.checkpoint(req, up_to=size + 32)  # as after the first part of a prompt that is prefilled in parts
    server.cache.checkpoint(req, up_to=3 * size)
    server.decode(req, prompt(5, size + 10))
    server.finish(req)
    server.forget()
    assert server.run('b', tokens + prompt(5, size + 10)) == [0, 4 * size]
    server.forget()
    short = server.ask('c', prompt(6, 32))
    server.answer(short)
    server.admit(short)
    server.decode(short, prompt(7, size))
    server.finish(short)
    until_free(http)
    server.forget()
    assert server.run('d', prompt(6, 32) + prompt(7, size)) == [0, size]
    until_free(http)
    server.close()
    return {}


def locks(url, http):
    """What a lookup holds is let go, whatever becomes of the request."""
    server = Server(url, 'sglang/locks')
    size, tokens = server.chunk, prompt(8, 3 * server.chunk + 20)
    server.run('a', tokens)
    server.forget()
    until_free(http)
    asked = server.ask('b', tokens)
    server.answer(asked)
    assert holds(http)[0] > 0, 'the lookup holds what it promised'
    server.cache.release_aborted_request(asked.cache_request_handle)
    until_free(http)
    unanswered = server.ask('c', tokens)
    server.cache.release_aborted_request(unanswered.cache_request_handle)
    until_free(http)
    # Three requests of one prompt at a time: the last one finds resident what the first one has loaded.
    requests = [server.ask(rid, tokens) for rid in 'def']
    for req in requests[:2]:
        server.answer(req)
    for req, expected in zip(requests, [(0, 3 * size), (0, 3 * size), (3 * size + 16, 0)]):
        server.answer(req)
        server.admit(req)
        assert (req.resident, req.loaded) == expected, (req.resident, req.loaded)
        server.finish(req)
    until_free(http)
    server.forget()
    # Leases of a part of what was found: from the second chunk on, then none.
    op = server.connector.submit_lookup('g', tokens[:3 * size], local_hit_tokens=0, cache_salt='')
    until('found', lambda: server.connector.poll_lookup(op) is not None)
    server.connector.free_lookup_locks('g', 0, size)
    assert holds(http)[0] > 0, 'two chunks are still to be read'
    server.connector.free_lookup_locks('g', size, 3 * size)
    until('no lease is open', lambda: holds(http)[0] == 0)
    server.connector.finish_request('g')
    until_free(http)
    # Pending and finished requests of a server that is flushed.
    server.answer(server.ask('h', tokens))
    server.cache.reset()
    until_free(http)
    assert server.cache.clear_storage_backend() is True
    server.close()
    return {}


def store(url, http):
    """The first of two processes; it ends without a word."""
    assert Server(url, 'sglang/two').run('a', prompt(9, 600)) == [0, 0]
    return {}


def find(url, http):
    assert Server(url, 'sglang/two').run('b', prompt(9, 600)) == [0, 512]
    return {}


def restart(url, http):
    """The engine is killed or stopped, and another one takes over its memory: the connector is told nothing."""
    server = Server(url, 'sglang/restart')
    tokens = prompt(10, 600)
    assert server.run('a', tokens) == [0, 0]
    server.forget()
    told('stored')
    assert server.run('b', tokens) == [0, 512]
    assert server.run('c', prompt(11, 600)) == [0, 0]
    server.forget()
    assert server.run('d', prompt(11, 600)) == [0, 512]
    return {}


def cold(url, http):
    """The engine comes back with other memory: this server goes on without a cache, a new one has it."""
    server = Server(url, 'sglang/cold')
    tokens = prompt(12, 600)
    assert server.run('a', tokens) == [0, 0]
    server.forget()
    told('stored')
    for rid in 'bc':
        assert server.run(rid, tokens) == [0, 0]
        server.forget()
    again = Server(url, 'sglang/cold')
    assert again.run('d', tokens) == [0, 0]
    again.forget()
    assert again.run('e', tokens) == [0, 512]
    return {}


def silent(url, http):
    """No request came for longer than the engine waits: the connector has sent no heartbeat, and registers only once."""
    server = Server(url, 'sglang/silent')
    until('it is taken for dead', lambda: status(http)['mp']['instances'] == 0)
    tokens = prompt(13, 600)
    assert server.run('a', tokens) == [0, 0]
    until('its heartbeats count', lambda: status(http)['mp']['instances'] == 1)
    server.forget()
    server.run('b', tokens)
    server.forget()
    assert server.run('c', tokens) == [0, 512]
    return {}


def rank(url, http):
    """One of two ranks of a server, joined by gloo: `rank 0|1 FILE`. With MLA both read what the first one writes."""
    number, meeting = int(sys.argv[4]), sys.argv[5]
    dist.init_process_group('gloo', init_method=f'file://{meeting}', rank=number, world_size=2)
    for kind in ('mha', 'mla'):
        server = Server(url, f'sglang/ranks-{kind}', 16, kind, tp_size=2, tp_rank=number, tp_group=dist.group.WORLD)
        tokens, size = prompt(14, 3 * server.chunk + 40), server.chunk
        assert server.run('a', tokens) == [0, 0]
        server.forget()
        dist.barrier()
        assert server.run('b', tokens) == [0, 3 * size]
        server.forget()
        assert server.run('c', tokens[:2 * size + 30]) == [0, 2 * size]
        resident, loaded = server.run('d', tokens)
        assert resident >= 2 * size and resident + loaded == 3 * size
        dist.barrier()
        until_free(http)
        dist.barrier()
        server.close()
    return {}


def refusal(make):
    try:
        make()
    except Exception as error:
        return f'{type(error).__name__}: {error}'
    return 'none'


def refusals(url, http):
    """What is not served, and what the server's start says then."""
    return {
        'handles': refusal(lambda: Server(url, 'sglang/handles', **{'lmcache.mp.mp_transfer_mode': 'lmcache_driven'})),
        'groups': refusal(lambda: Server(url, 'sglang/uneven', 16, 'uneven')),
        'pages': refusal(lambda: Server(url, 'sglang/pages', 512)),
        'layers': refusal(lambda: [Server(url, 'sglang/layers', layers=layers) for layers in (3, 2)]),
    }


SCENARIOS = {
    'cycle': cycle, 'keys': keys, 'steps': steps, 'locks': locks, 'store': store, 'find': find, 'restart': restart,
    'cold': cold, 'silent': silent, 'rank': rank, 'refusals': refusals,
}


if __name__ == '__main__':
    versions = {name: importlib.metadata.version(name) for name in ('sglang', 'lmcache', 'torch')}
    for name in sys.argv[3].split(','):
        result = SCENARIOS[name](*sys.argv[1:3])
        print(json.dumps({'scenario': name, **result, 'versions': versions}), flush=True)
    os._exit(0)  # heartbeat threads would keep the process
