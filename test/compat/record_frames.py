"""Records what a real lmcache client puts on the wire, and which replies it accepts.

Run with a Python that can import lmcache, one version at a time (see test/README.md):

    python test/compat/record_frames.py test/golden/mp/lmcache-0.5.6.json

A pre-release wheel (lmcache-cli) holds Python files only: add --without-native.

The client's own message queue sends every request over a real socket to a ROUTER in this process, which keeps the
frames and answers; what the client makes of the answer is kept too. Inputs are fixed, so the same version records the
same file. Nothing of lmcache is copied: its frames are the only thing kept.
"""

import dataclasses
import enum
import importlib
import json
import sys
import unittest.mock

import msgspec
import zmq

INSTANCE = (1 << 62) + 3  # a 63-bit id that a double cannot hold
PID = 4242  # the scheduler reports blocks under its process id
TOKENS = [0, 1, 127, 128, 255, 256, 65535, 65536, 131071] + list(range(1000, 1026))  # 35: two chunks of 16 and a rest
REQUEST = 'cmpl-golden-0'
SLOT = {'length': 8192, 'shape': [2, 4, 16, 32], 'dtype': 'bfloat16'}
TWO_SLOTS = [{'offset': 0, **SLOT}, {'offset': 1 << 33, **SLOT}]


def load(*names):
    """The first attribute found; names are 'module:attribute' below lmcache.v1.multiprocess."""
    for name in names:
        module, attribute = name.split(':')
        try:
            return getattr(importlib.import_module('lmcache.v1.multiprocess.' + module), attribute)
        except (ImportError, AttributeError):
            continue
    return None


def plain(value):
    """A value as JSON without loss: bytes as {hex}, integers beyond 2^53 as {int}."""
    if isinstance(value, bytes):
        return {'hex': value.hex()}
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53 - 1:
        return {'int': str(value)}
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return plain(value.value) if isinstance(value, enum.Enum) else value


class OldClient:
    """Versions with an enum of request types: 0.4.x to 0.5.5."""

    def __init__(self, url, context):
        queue = importlib.import_module('lmcache.v1.multiprocess.mq')
        protocol = importlib.import_module('lmcache.v1.multiprocess.protocol')
        self.encode = queue.msgspec_encode
        self.types = protocol.RequestType
        self.protocol = protocol
        self.client = queue.MessageQueueClient(url, context)

    def ops(self):
        return {type.name.lower(): type.value for type in self.types}

    def spec(self, op):
        type = self.types[op.upper()]
        return self.protocol.get_payload_classes(type), self.protocol.get_response_class(type)

    def submit(self, op, payloads):
        type = self.types[op.upper()]
        return self.client.submit_request(type, payloads, self.protocol.get_response_class(type))


class NamedClient:
    """Versions with named operations and a frozen table of ids: from 0.5.6."""

    def __init__(self, url, context):
        queue = importlib.import_module('lmcache.v1.multiprocess.transport.zmq_impl.mq')
        wire = importlib.import_module('lmcache.v1.multiprocess.transport.zmq_impl.wire')
        rpc = importlib.import_module('lmcache.v1.multiprocess.rpc')
        self.encode = queue.msgspec_encode
        self.ids = wire.LEGACY_OPERATION_IDS
        self.specs = rpc.get_rpc_specs()
        self.client = queue.MessageQueueClient(url, context)

    def ops(self):
        return {op: self.ids.get(op, op) for op in self.specs}

    def spec(self, op):
        return self.specs[op].payload_types, self.specs[op].response_type

    def submit(self, op, payloads):
        return self.client.submit_request(op, payloads)


def connect(url, context):
    try:
        return NamedClient(url, context)
    except ImportError:
        return OldClient(url, context)


def build(cls, **fields):
    """An instance of the client's own struct, from those fields that this version has; None where it has no such struct."""
    if cls is None:
        return None
    known = set(getattr(cls, '__struct_fields__', None) or [field.name for field in dataclasses.fields(cls)])
    return cls(**{name: value for name, value in fields.items() if name in known})


def key(worker, start=0, end=32, **more):
    cls = load('custom_types:IPCCacheServerKey', 'custom_types:IPCCacheEngineKey')
    packed = load('token_codec:pack_token_ids')
    fields = dict(model_name='org/model-7b', world_size=2, worker_id=worker, token_ids=tuple(TOKENS), start=start,
                  end=end, request_id=REQUEST, num_kv_readers=1)
    if packed is not None:
        fields['token_bytes'] = packed(TOKENS)
    return build(cls, **{**fields, **more})


def layout(**more):
    cls = load('custom_types:RegisterEngineDrivenContextPayload', 'custom_types:RegisterNonGpuContextPayload')
    fields = dict(instance_id=INSTANCE, model_name='org/model-7b', world_size=2, block_size=16, num_layers=4,
                  hidden_dim_size=32, dtype_str='bfloat16', use_mla=False, num_physical_slots=16)
    return build(cls, **{**fields, **more})


def cases():
    """(op, name of the case, payloads, reply). Payloads beyond those a version takes are left out. Replies are maps
    of the fields that a server has to send: the client fills in its own defaults."""
    slots = dict(slots=TWO_SLOTS, chunk_indices=[0, 1])
    records = [build(load('custom_types:BlockAllocationRecord'), req_id=REQUEST, new_block_ids=[7, 8],
                     new_token_ids=TOKENS[:4])] if load('custom_types:BlockAllocationRecord') else []
    attach = dict(shm_name='kvtier-golden', pool_size=1 << 34)
    return [
        ('get_chunk_size', '', [], 256),
        ('negotiate_chunk_size', '', [16], 256),
        ('get_experimental', 'none', [], []),
        ('ping', 'scheduler', [None], True),
        ('ping', 'worker', [INSTANCE], True),
        ('ping', 'refused', [INSTANCE], False),
        ('register_kv_cache_engine_driven_context', '', [layout()], attach),
        ('register_kv_cache_engine_driven_context', 'largest id, MLA',
         [layout(instance_id=(1 << 63) - 1, use_mla=True, world_size=1)], attach),
        ('unregister_kv_cache_engine_driven_context', '', [INSTANCE], None),
        ('lookup', '', [key(None), 2], None),
        ('lookup', 'salted', [key(None, cache_salt='tenant-a'), 2], None),
        ('lookup', 'with request configs', [key(None, request_configs={'priority': 3, 'tag': 'x'}), 2], None),
        ('query_prefetch_status', 'done', [REQUEST], 2),
        ('query_prefetch_status', 'working', [REQUEST], None),
        ('query_prefetch_status', 'unknown', ['nobody'], 0),
        ('wait_prefetch_status', 'done', [REQUEST, 2.5], 2),
        ('wait_prefetch_status', 'timed out', [REQUEST, 0.0], None),
        ('query_prefetch_lookup_hits', 'done', [REQUEST], 2),
        ('prepare_store', 'two slots', [key(0), INSTANCE, ()], dict(context=slots)),
        ('prepare_store', 'second chunk only', [key(1), INSTANCE, ()],
         dict(context=dict(slots=TWO_SLOTS[1:], chunk_indices=[1]))),
        ('prepare_store', 'all present', [key(0), INSTANCE, ()],
         dict(context=dict(slots=[], chunk_indices=[]))),
        ('prepare_store', 'worker skips a chunk', [key(0), INSTANCE, ((0,), ())],
         dict(context=dict(slots=TWO_SLOTS[1:], chunk_indices=[1]))),
        ('commit_store', 'done', [key(0), INSTANCE, b''], True),
        ('commit_store', 'refused', [key(0), INSTANCE, b''], False),
        ('prepare_retrieve', 'hit', [key(0), INSTANCE],
         dict(success=True, data=b'', context=dict(slots=TWO_SLOTS))),
        ('prepare_retrieve', 'later chunk', [key(0, start=16), INSTANCE],
         dict(success=True, data=b'', context=dict(slots=TWO_SLOTS[1:]))),
        ('prepare_retrieve', 'miss', [key(0), INSTANCE],
         dict(success=False, data=b'', context={})),
        ('commit_retrieve', 'done', [key(0), INSTANCE], True),
        ('commit_retrieve', 'late', [key(0), INSTANCE], False),
        ('free_lookup_locks', '', [key(None, start=16), 2, ()], None),
        ('free_lookup_locks', 'more ranges', [key(None, end=16), 2, ((16, 32),)], None),
        ('end_session', '', [REQUEST], None),
        ('report_block_allocation', '', [PID, 'org/model-7b', records], None),
        ('clear', 'idle chunks only', [False], None),
        ('clear', 'forced', [True], None),
        ('noop', '', [], 'ok'),
        # lmcache_driven: recorded so that a server knows the frames it must leave unanswered.
        ('register_kv_cache', 'lmcache_driven, no tensors', [INSTANCE, [], 'org/model-7b', 2, engine_type(), {}, []], None),
        ('unregister_kv_cache', 'lmcache_driven', [INSTANCE], None),
        ('store', 'lmcache_driven', [key(0), INSTANCE, [[1, 2]], b'\x01' * 8], (b'', True)),
        ('retrieve', 'lmcache_driven', [key(0), INSTANCE, [[1, 2]], b'\x01' * 8, 0], (b'', True)),
    ]


def engine_type():
    return getattr(importlib.import_module('lmcache.utils'), 'EngineType').VLLM


RENAMED = {'engine_driven_context': 'non_gpu_context'}


def name_in(ops, op):
    if op in ops:
        return op
    for new, old in RENAMED.items():
        if op.replace(new, old) in ops:
            return op.replace(new, old)
    return None


def exchange(client, router, op, payloads, answer):
    """One request and its reply over the wire: frames both ways, and what the client made of the reply."""
    classes, response = client.spec(op)
    payloads = payloads[: len(classes)]
    future = client.submit(op, payloads)
    identity, uid, wire_op, *sent = router.recv_multipart()
    body = [] if answer is None or response is None else [client.encode(answer, response)]
    router.send_multipart([identity, uid, wire_op, *body])
    accepted = future.result(timeout=5)
    return {
        'frames': [frame.hex() for frame in [uid, wire_op, *sent]],
        'meaning': {'payloads': plain(payloads)},
        'reply': {'frames': [frame.hex() for frame in [uid, wire_op, *body]], 'accepted': plain(accepted)},
    }


def write(path, document):
    """JSON with one exchange on a line, so that a diff names the exchange."""
    head = {name: value for name, value in document.items() if name != 'exchanges'}
    lines = json.dumps(head, indent=1)[:-2] + ',\n "exchanges": [\n'
    lines += ',\n'.join('  ' + json.dumps(entry) for entry in document['exchanges'])
    with open(path, 'w') as file:
        file.write(lines + '\n ]\n}\n')


def main(path):
    version = importlib.import_module('lmcache._version').__version__
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.RCVTIMEO = 5000
    port = router.bind_to_random_port('tcp://127.0.0.1')
    client = connect(f'tcp://127.0.0.1:{port}', context)
    ops = client.ops()
    generation = f"get_chunk_size={ops['get_chunk_size']},get_experimental={ops.get('get_experimental', 'none')}"
    seen, recorded, failed = set(), [], []
    for op, name, payloads, answer in cases():
        wire_name = name_in(ops, op)
        if wire_name is None:
            continue
        try:
            frames = exchange(client, router, wire_name, payloads, answer)
        except Exception as error:  # a case that this version cannot express is listed, not hidden
            failed.append(f'{op} {name}: {type(error).__name__}: {error}'[:200])
            continue
        same = (op, tuple(frames['frames'][1:]), tuple(frames['reply']['frames'][1:]))
        if same in seen:  # versions that take fewer payloads record some cases twice
            continue
        seen.add(same)
        recorded.append({'op': op, 'case': name, 'generation': generation, 'client_version': version,
                         'name': wire_name, 'wire_op': ops[wire_name], **frames})
    document = {
        'client': f'lmcache {version}',
        'client_version': version,
        'generation': generation,
        'ops': ops,
        'notes': [],
        'not_recorded': failed,
        'exchanges': recorded,
    }
    try:
        document['notes'] = json.load(open(path))['notes']  # written by hand, kept
    except (OSError, KeyError, ValueError):
        pass
    write(path, document)
    print(f'{len(recorded)} exchanges of lmcache {version} ({generation}), {len(failed)} not recorded')
    for line in failed:
        print('  ' + line)


if __name__ == '__main__':
    if '--without-native' in sys.argv:  # a wheel of Python files only: its compiled part is not on the way of a frame
        sys.modules['lmcache.lmcache_native'] = unittest.mock.MagicMock()
    main(sys.argv[1])
    sys.stdout.flush()
    importlib.import_module('os')._exit(0)  # the client's polling thread would keep the process
