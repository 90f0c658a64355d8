"""A stand-in for an inference server on the MP wire: its scheduler and its workers, in Python, without lmcache.

    python mimic.py tcp://127.0.0.1:5555 SCENARIO

Runs one scenario against a running engine, prints what happened as one JSON line, and ends with 1 and a traceback when
the engine gave a wrong answer or wrong bytes. Scenarios are the functions below SCENARIOS; mimic.test.ts runs them.

Frames follow test/golden/mp. A client sends [uid][op][payload...] over a DEALER and reads [uid][op] or [uid][op][value].
"""

import json
import os
import random
import sys
import time
import uuid
from multiprocessing import resource_tracker, shared_memory

import msgpack
import zmq

ANSWER_MS = 10_000
POLL_SECONDS = 0.002
BLOCK_TOKENS = 16
LAYERS, HIDDEN, DTYPE, ITEM_BYTES = 2, 64, 'float16', 2

CURRENT_IDS = dict(register_kv_cache=1, lookup=8, query_prefetch_status=9, wait_prefetch_status=10,
                   free_lookup_locks=12, end_session=13, register_kv_cache_engine_driven_context=14,
                   unregister_kv_cache_engine_driven_context=15, prepare_store=16, commit_store=17, prepare_retrieve=18,
                   commit_retrieve=19, clear=20, get_chunk_size=21, ping=22, report_block_allocation=23, noop=24,
                   get_experimental=32)
IDS_OF_0_5_0 = dict(register_kv_cache=1, lookup=5, query_prefetch_status=6, wait_prefetch_status=7, free_lookup_locks=9, end_session=10,
                    register_kv_cache_engine_driven_context=11, unregister_kv_cache_engine_driven_context=12,
                    prepare_store=13, commit_store=14, prepare_retrieve=15, commit_retrieve=16, clear=17,
                    get_chunk_size=18, ping=19, report_block_allocation=20, noop=21)
IDS_OF_0_4_7 = dict(lookup=5, query_prefetch_status=6, free_lookup_locks=8, end_session=9,
                    register_kv_cache_engine_driven_context=10, unregister_kv_cache_engine_driven_context=11,
                    prepare_store=12, commit_store=13, prepare_retrieve=14, commit_retrieve=15, clear=16,
                    get_chunk_size=17, ping=18, report_block_allocation=19, noop=20)
#: numbering of the operations, whether tokens are packed, fields of a key that came later than cache_salt
GENERATIONS = {
    '0.4.7': (IDS_OF_0_4_7, False, {}),
    '0.5.2': (IDS_OF_0_5_0, False, {}),
    '0.5.6': (CURRENT_IDS, False, {'request_configs': None, 'num_kv_readers': 1}),
    '0.5.7': (CURRENT_IDS, True, {'request_configs': None, 'num_kv_readers': 1}),
}


class NoAnswer(Exception):
    """Nothing came back in time: on this wire that is how a server says no."""


class Refused(Exception):
    """The answer names another operation: how this engine tells newer clients of an error."""


class Client:
    """One DEALER. Asks one thing at a time; the answer's uid and op must be those of the question."""

    def __init__(self, url, generation='0.5.6'):
        self.ids, self.packs_tokens, self.later_fields = GENERATIONS[generation]
        self.generation = generation
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(url)
        self.uid = -1
        self.chunk_tokens = self.ask('get_chunk_size')

    def send(self, op, *payloads):
        self.uid += 1
        head = [msgpack.packb(self.uid), msgpack.packb(self.ids.get(op, op))]
        self.socket.send_multipart(head + [msgpack.packb(payload) for payload in payloads])
        return head

    def ask(self, op, *payloads, wait_ms=ANSWER_MS):
        head = self.send(op, *payloads)
        if not self.socket.poll(wait_ms):
            raise NoAnswer(f'{op} got no answer in {wait_ms} ms')
        answer = self.socket.recv_multipart()
        assert answer[0] == head[0], f'{op}: asked {head}, answered {answer}'
        if answer[1] != head[1]:
            raise Refused(msgpack.unpackb(answer[1]))
        assert len(answer) <= 3, f'{op}: {len(answer)} frames'
        return msgpack.unpackb(answer[2]) if len(answer) == 3 else None

    def ping(self, instance):
        return self.ask('ping') if self.generation == '0.4.7' else self.ask('ping', instance)

    def key(self, model, world, rank, tokens, start, end, request, salt):
        body = {'token_bytes': b''.join(token.to_bytes(4, 'big') for token in tokens)} if self.packs_tokens else {
            'token_ids': tokens}
        return {'model_name': model, 'world_size': world, 'worker_id': rank, **body, 'start': start, 'end': end,
                'request_id': request, 'cache_salt': salt, **self.later_fields}

    def close(self):
        self.socket.close()


class Scheduler(Client):
    """Asks for prompts and ends requests. Has no memory and no rank."""

    def __init__(self, url, model, world=1, readers=1, generation='0.5.6'):
        super().__init__(url, generation)
        self.model, self.world = model, world
        if 'num_kv_readers' in self.later_fields:
            self.later_fields = {**self.later_fields, 'num_kv_readers': readers}

    def prompt_key(self, tokens, request, salt='', start=0, end=None):
        whole = len(tokens) // self.chunk_tokens * self.chunk_tokens
        return self.key(self.model, self.world, None, tokens, start, whole if end is None else end, request, salt)

    def lookup(self, tokens, request, salt=''):
        """Chunks found, asked as vLLM does: the lookup is acknowledged at once, then polled."""
        assert self.ask('lookup', self.prompt_key(tokens, request, salt), self.world) is None
        until = time.monotonic() + ANSWER_MS / 1000
        while (found := self.ask('query_prefetch_status', request)) is None:
            assert time.monotonic() < until, 'the lookup never came to an end'
            time.sleep(POLL_SECONDS)
        return found

    def free(self, tokens, request, start, end, salt=''):
        more = [[]] if self.generation == '0.5.7' else []
        assert self.ask('free_lookup_locks', self.prompt_key(tokens, request, salt, start, end), self.world, *more) is None

    def end(self, request):
        assert self.ask('end_session', request) is None

    def lookup_and_end(self, tokens, request, salt=''):
        found = self.lookup(tokens, request, salt)
        self.end(request)
        return found


class Worker(Client):
    """One rank. Copies between its own memory (here: bytes) and the engine's segment."""

    def __init__(self, url, model, world=1, rank=0, generation='0.5.6', mla=False, instance=None):
        super().__init__(url, generation)
        if generation in ('0.5.6', '0.5.7'):
            assert isinstance(self.ask('get_experimental'), list)
        self.model, self.world, self.rank, self.mla = model, world, rank, mla
        self.instance = instance or uuid.uuid4().int & ((1 << 63) - 1)
        self.shape = ([] if mla else [2]) + [LAYERS, self.chunk_tokens, HIDDEN]
        self.chunk_bytes = (1 if mla else 2) * LAYERS * self.chunk_tokens * HIDDEN * ITEM_BYTES
        self.segment, self.pool_bytes = self.register()

    def register(self):
        layout = {'instance_id': self.instance, 'model_name': self.model, 'world_size': self.world,
                  'block_size': BLOCK_TOKENS, 'num_layers': LAYERS, 'hidden_dim_size': HIDDEN, 'dtype_str': DTYPE,
                  'use_mla': self.mla}
        if self.later_fields:
            layout['num_physical_slots'] = self.chunk_tokens
        if self.generation == '0.5.7':
            layout['group_layouts'] = []
        answer = self.ask('register_kv_cache_engine_driven_context', layout)
        assert answer['shm_name'] and answer['pool_size'] > 0, answer
        segment = shared_memory.SharedMemory(name=answer['shm_name'].lstrip('/'), create=False)
        # The segment is the engine's: without this, Python before 3.13 removes its name when this process ends.
        resource_tracker.unregister(segment._name, 'shared_memory')
        assert segment.size >= answer['pool_size'], (segment.size, answer)
        return segment, answer['pool_size']

    def range_key(self, tokens, request, start, end, salt):
        return self.key(self.model, self.world, self.rank, tokens, start, end, request, salt)

    def view(self, slot):
        assert slot['shape'] == self.shape and slot['dtype'] == DTYPE, slot
        assert slot['length'] == self.chunk_bytes, slot
        assert 0 <= slot['offset'] and slot['offset'] + slot['length'] <= self.pool_bytes, slot
        return self.segment.buf[slot['offset']:slot['offset'] + slot['length']]

    def store(self, tokens, request, chunks, start=0, salt=''):
        """Stores the chunks from token `start` on. @returns the indices that were written, or None when refused."""
        key = self.range_key(tokens, request, start, start + len(chunks) * self.chunk_tokens, salt)
        context = self.ask('prepare_store', key, self.instance, *([[]] if self.generation == '0.5.7' else []))['context']
        slots, indices = context['slots'], context['chunk_indices']
        assert len(slots) == len(indices) and indices == sorted(set(indices)), context
        if not indices:
            return []
        for slot, index in zip(slots, indices):
            self.view(slot)[:] = chunks[index]
        return indices if self.ask('commit_store', key, self.instance, b'') else None

    def retrieve(self, tokens, request, start, end, salt=''):
        """The bytes of each chunk, or None when there is nothing to be had."""
        key = self.range_key(tokens, request, start, end, salt)
        answer = self.ask('prepare_retrieve', key, self.instance)
        if not answer['success']:
            assert self.ask('commit_retrieve', key, self.instance) is False  # real workers commit all the same
            return None
        slots = answer['context']['slots']
        assert len(slots) == (end - start) // self.chunk_tokens, answer
        chunks = [bytes(self.view(slot)) for slot in slots]
        assert self.ask('commit_retrieve', key, self.instance) is True
        return chunks

    def unregister(self):
        assert self.ask('unregister_kv_cache_engine_driven_context', self.instance) is None

    def close(self):
        self.segment.close()
        super().close()


def prompt(seed, chunks, chunk_tokens, rest=5):
    return [random.Random(seed).randrange(128_000) for _ in range(chunks * chunk_tokens + rest)]


def content(seed, chunks, worker):
    """What this rank computed for a prompt."""
    return [random.Random(f'{seed} {worker.rank} {index}').randbytes(worker.chunk_bytes) for index in range(chunks)]


def same(found, expected):
    assert found is not None, 'nothing came back'
    for index, (left, right) in enumerate(zip(found, expected, strict=True)):
        assert left == right, f'chunk {index} came back with other bytes'


def greet(url):
    scheduler = Scheduler(url, 'mimic/greet')
    assert scheduler.chunk_tokens % BLOCK_TOKENS == 0
    assert scheduler.ask('get_experimental') == []
    assert scheduler.ping(None) is True
    assert isinstance(scheduler.ask('noop'), (str, type(None)))
    assert scheduler.ask('query_prefetch_status', 'nobody') == 0
    return {'chunk_tokens': scheduler.chunk_tokens}


def cycle(url, generation='0.5.6'):
    """Miss, store, hit, retrieve, a longer prompt, end: one request after another of one worker."""
    model = f'mimic/cycle-{generation}'
    scheduler, worker = Scheduler(url, model, generation=generation), Worker(url, model, generation=generation)
    size = scheduler.chunk_tokens
    tokens, expected = prompt(1, 6, size), content(1, 6, worker)
    assert scheduler.lookup(tokens, 'a') == 0
    assert worker.store(tokens, 'a', expected[:4]) == [0, 1, 2, 3]
    assert worker.store(tokens, 'a', expected[4:], start=4 * size) == [0, 1]
    scheduler.end('a')
    assert scheduler.lookup(tokens, 'b') == 6
    same(worker.retrieve(tokens, 'b', 0, 6 * size), expected)
    assert worker.store(tokens, 'b', expected) == [], 'everything is there: nothing to write'
    scheduler.end('b')
    assert scheduler.lookup(tokens, 'c') == 6
    scheduler.free(tokens, 'c', 0, 2 * size)
    same(worker.retrieve(tokens, 'c', 2 * size, 6 * size), expected[2:])
    scheduler.end('c')
    other = tokens[:3 * size] + prompt(2, 3, size)
    assert scheduler.lookup(other, 'd') == 3
    same(worker.retrieve(other, 'd', 0, 3 * size), expected[:3])
    scheduler.end('d')
    assert worker.ping(worker.instance) is True
    worker.unregister()
    worker.close()
    return {'chunks': 6}


def ranks(url, world=2):
    """A chunk is a hit only when every rank has stored it."""
    scheduler = Scheduler(url, 'mimic/ranks', world)
    workers = [Worker(url, 'mimic/ranks', world, rank) for rank in range(world)]
    size = scheduler.chunk_tokens
    tokens = prompt(3, 4, size)
    expected = [content(3, 4, worker) for worker in workers]
    assert workers[0].store(tokens, 'a', expected[0]) == [0, 1, 2, 3]
    assert scheduler.lookup_and_end(tokens, 'b') == 0
    assert workers[1].store(tokens, 'a', expected[1][:2]) == [0, 1]
    assert scheduler.lookup(tokens, 'c') == 2
    for worker, chunks in zip(workers, expected):
        same(worker.retrieve(tokens, 'c', 0, 2 * size), chunks[:2])
    scheduler.end('c')
    assert workers[1].store(tokens, 'a', expected[1]) == [2, 3]
    assert scheduler.lookup(tokens, 'd') == 4
    for worker, chunks in zip(reversed(workers), reversed(expected)):
        same(worker.retrieve(tokens, 'd', 0, 4 * size), chunks)
    scheduler.end('d')
    return {'world': world}


def mla(url, readers=2):
    """One rank writes, several workers read the same object."""
    scheduler = Scheduler(url, 'mimic/mla', readers=readers)
    workers = [Worker(url, 'mimic/mla', mla=True) for _ in range(readers)]
    size = scheduler.chunk_tokens
    tokens, expected = prompt(4, 3, size), content(4, 3, workers[0])
    assert workers[0].store(tokens, 'a', expected) == [0, 1, 2]
    assert scheduler.lookup(tokens, 'b') == 3
    for worker in workers:
        same(worker.retrieve(tokens, 'b', 0, 3 * size), expected)
    scheduler.end('b')
    return {'readers': readers}


def salts(url):
    """One prompt, two salts: neither sees the other's chunks, and both get their own bytes."""
    scheduler, worker = Scheduler(url, 'mimic/salts'), Worker(url, 'mimic/salts')
    size = scheduler.chunk_tokens
    tokens = prompt(5, 3, size)
    expected = {salt: content(f'5{salt}', 3, worker) for salt in ('alice', 'bob')}
    assert worker.store(tokens, 'a', expected['alice'], salt='alice') == [0, 1, 2]
    assert scheduler.lookup_and_end(tokens, 'b', salt='bob') == 0
    assert scheduler.lookup_and_end(tokens, 'c') == 0
    assert worker.retrieve(tokens, 'd', 0, size, salt='bob') is None
    assert worker.store(tokens, 'e', expected['bob'][:2], salt='bob') == [0, 1]
    for salt, found in (('alice', 3), ('bob', 2)):
        assert scheduler.lookup(tokens, f'f-{salt}', salt=salt) == found
        same(worker.retrieve(tokens, f'f-{salt}', 0, found * size, salt=salt), expected[salt][:found])
        scheduler.end(f'f-{salt}')
    return {'salts': len(expected)}


def restarted_worker(url):
    """A worker registers twice under one id, as one does whose ping failed; the second time it must work as the first."""
    scheduler, worker = Scheduler(url, 'mimic/again'), Worker(url, 'mimic/again')
    segment, pool_bytes = worker.register()
    assert pool_bytes == worker.pool_bytes
    segment.close()
    tokens, expected = prompt(6, 2, scheduler.chunk_tokens), content(6, 2, worker)
    assert worker.store(tokens, 'a', expected) == [0, 1]
    assert scheduler.lookup_and_end(tokens, 'b') == 2
    return {}


def strangers(url):
    """An unregistered worker gets the no of each operation at once; handles of the other path are never acknowledged."""
    for generation, refusal in (('0.5.2', NoAnswer), ('0.5.6', Refused)):
        other = Worker(url, 'mimic/strangers', generation=generation)
        try:
            handles = [msgpack.ExtType(1, b'not unpickled')]
            other.ask('register_kv_cache', other.instance, handles, other.model, 1, 'vllm', {}, [], wait_ms=300)
            raise AssertionError(f'{generation}: device handles were acknowledged')
        except refusal:
            assert other.ping(None) is True
    worker = Worker(url, 'mimic/strangers')
    worker.unregister()
    tokens = prompt(7, 1, worker.chunk_tokens)
    assert worker.store(tokens, 'a', content(7, 1, worker)) == []
    assert worker.retrieve(tokens, 'a', 0, worker.chunk_tokens) is None
    return {}


def blocks(url):
    """Block reports of a scheduler: taken without an answer's value."""
    scheduler = Scheduler(url, 'mimic/blocks')
    records = [{'req_id': 'a', 'new_block_ids': [1, 2, 3], 'new_token_ids': list(range(3 * BLOCK_TOKENS))}]
    assert scheduler.ask('report_block_allocation', os.getpid(), scheduler.model, records) is None
    return {}


def clear(url):
    """A clear is answered, and not obeyed: that needs an option of the engine."""
    scheduler, worker = Scheduler(url, 'mimic/clear'), Worker(url, 'mimic/clear')
    tokens, expected = prompt(8, 2, scheduler.chunk_tokens), content(8, 2, worker)
    assert worker.store(tokens, 'a', expected) == [0, 1]
    assert scheduler.lookup_and_end(tokens, 'b') == 2
    assert scheduler.ask('clear', False) is None
    assert scheduler.lookup_and_end(tokens, 'c') == 2
    return {}


SCENARIOS = {
    'greet': greet, 'cycle': cycle, 'ranks': ranks, 'mla': mla, 'salts': salts, 'restarted-worker': restarted_worker,
    'strangers': strangers, 'blocks': blocks, 'clear': clear,
}
SCENARIOS |= {f'cycle-{name}': lambda url, name=name: cycle(url, name) for name in GENERATIONS}


if __name__ == '__main__':
    print(json.dumps(SCENARIOS[sys.argv[2]](sys.argv[1])))
