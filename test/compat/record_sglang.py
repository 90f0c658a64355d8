"""Records what SGLang's radix cache has lmcache's connector put on the wire, and which replies it accepts.

Run with what `sglang.compat.ts` installs (see test/README.md):

    python test/compat/record_sglang.py test/golden/mp/lmcache-0.5.6-sglang.json

Requests run against a ROUTER in this process, which gives fixed answers. Everything random is fixed too.
"""

import importlib
import importlib.metadata
import json
import os
import sys
import threading
import unittest.mock
import uuid
from multiprocessing import shared_memory

import zmq
from record_frames import INSTANCE, plain, write
from sglang_server import Server, prompt

CHUNK = 16
SEGMENT, SEGMENT_BYTES = 'kvtier-golden', 1 << 20


class Answers(threading.Thread):
    """An engine that finds two chunks of every prompt from the second request on, and has room for everything."""

    def __init__(self, context):
        super().__init__(daemon=True)
        self.socket = context.socket(zmq.ROUTER)
        self.port = self.socket.bind_to_random_port('tcp://127.0.0.1')
        self.queue = importlib.import_module('lmcache.v1.multiprocess.transport.zmq_impl.mq')
        wire = importlib.import_module('lmcache.v1.multiprocess.transport.zmq_impl.wire')
        self.specs = importlib.import_module('lmcache.v1.multiprocess.rpc').get_rpc_specs()
        self.ids = wire.LEGACY_OPERATION_IDS
        self.names = {number: name for name, number in self.ids.items()}
        self.case, self.recorded, self.seen, self.shape = '', [], set(), []
        self.polled = set()

    def run(self):
        while True:
            identity, uid, wire_op, *sent = self.socket.recv_multipart()
            op = self.queue.msgspec_decode(wire_op, int)
            op = self.names[op]
            spec = self.specs[op]
            payloads = [self.queue.msgspec_decode(frame, type) for frame, type in zip(sent, spec.payload_types)]
            answer = self.answer(op, payloads)
            body = [] if answer is None else [self.queue.msgspec_encode(answer, spec.response_type)]
            self.socket.send_multipart([identity, uid, wire_op, *body])
            accepted = self.queue.msgspec_decode(body[0], spec.response_type) if body else None
            self.record(op, uid, wire_op, sent, payloads, body, accepted)

    def answer(self, op, payloads):
        if op == 'get_chunk_size':
            return CHUNK
        if op == 'register_kv_cache_engine_driven_context':
            width = payloads[0].hidden_dim_size
            self.shape = [payloads[0].num_layers, CHUNK, width]
            return {'shm_name': SEGMENT, 'pool_size': SEGMENT_BYTES}
        if op == 'query_prefetch_status':
            request = payloads[0]
            first = request not in self.polled
            self.polled.add(request)
            return None if first else 0 if request == 'a' else 2
        if op in ('prepare_store', 'prepare_retrieve'):
            chunks = (payloads[0].end - payloads[0].start) // CHUNK
            length = self.shape[0] * self.shape[1] * self.shape[2] * 2
            slots = [{'offset': at * length, 'length': length, 'shape': self.shape, 'dtype': 'bfloat16'}
                     for at in range(chunks)]
            if op == 'prepare_retrieve':
                return {'success': True, 'data': b'', 'context': {'slots': slots}}
            return {'context': {'slots': slots, 'chunk_indices': list(range(chunks))}}
        return True if op in ('commit_store', 'commit_retrieve', 'ping') else None

    def record(self, op, uid, wire_op, sent, payloads, body, accepted):
        same = (op, tuple(sent), tuple(body))
        if same in self.seen:
            return
        self.seen.add(same)
        self.recorded.append({
            'op': op, 'case': self.case, 'name': op, 'wire_op': self.ids[op],
            'frames': [frame.hex() for frame in [uid, wire_op, *sent]],
            'meaning': {'payloads': plain(payloads)},
            'reply': {'frames': [frame.hex() for frame in [uid, wire_op, *body]], 'accepted': plain(accepted)},
        })


def scene(answers, kind, instance):
    """A miss that stores, a hit that loads, one whose prompt is resident, an abort."""
    answers.case = kind
    with unittest.mock.patch.object(uuid, 'uuid4', lambda: unittest.mock.Mock(int=instance)):
        server = Server(f'tcp://127.0.0.1:{answers.port}', f'org/model-{kind}', 16, kind,
                        **{'lmcache.mp.heartbeat_interval': 3600})
    server.check = lambda req: None  # the answers' segment holds nothing in particular
    tokens = prompt(1, 2 * CHUNK + 5)
    server.run('a', tokens, 'alice', 'lora-1')
    server.forget()
    server.run('b', tokens)
    server.run('c', tokens)
    asked = server.ask('d', tokens[:CHUNK] + prompt(2, CHUNK + 5))
    server.answer(asked)
    server.cache.release_aborted_request(asked.cache_request_handle)
    server.connector._req_client.ping(instance).result(timeout=5)
    server.cache.clear_storage_backend()
    return server


def main(path):
    segment = shared_memory.SharedMemory(name=SEGMENT, create=True, size=SEGMENT_BYTES)
    try:
        answers = Answers(zmq.Context.instance())
        answers.start()
        scene(answers, 'mha', INSTANCE).close()
        server = scene(answers, 'mla', INSTANCE + 1)
        answers.case = 'lmcache_driven, no tensors'
        engine_type = importlib.import_module('lmcache.utils').EngineType.SGLANG
        server.connector._req_client.register_kv_cache(INSTANCE, [], 'org/model-mha', 1, engine_type,
                                                       {'kv_list_layout': 'unified'}, []).result(timeout=5)
        server.close()
    finally:
        segment.unlink()
    versions = {name: importlib.metadata.version(name) for name in ('lmcache', 'sglang')}
    notes = ['One client a rank: it looks up, stores and fetches. It asks for no experiments and registers once.',
             'use_mla is true for MHA too: keys of all layers, then values, are planes of one list.',
             'lookup and free_lookup_locks give the world size of keys where others give that of the tensors.',
             'A heartbeat starts with the first lookup or store, and its answer is not looked at.']
    write(path, {'client': f"lmcache {versions['lmcache']} in SGLang {versions['sglang']}",
                 'client_version': versions['lmcache'], 'notes': notes, 'exchanges': answers.recorded})
    print(f'{len(answers.recorded)} exchanges')


if __name__ == '__main__':
    main(sys.argv[1])
    sys.stdout.flush()
    os._exit(0)
