"""One rank of an SGLang server without its model: SGLang's own pools, allocator, requests and radix cache, on the CPU.

`Server` calls them in the order in which SGLang's scheduler does. Where the model would run, the KV of every new token
is written: numbers that follow from the tokens up to it, so that each process can tell what any cached page must hold.
"""

import os
import tempfile
import time
from array import array
from types import SimpleNamespace

os.environ.setdefault('LMCACHE_LOG_LEVEL', 'ERROR')
os.environ.setdefault('OMP_NUM_THREADS', '1')

import torch
from sglang.srt.configs.model_config import AttentionArch
from sglang.srt.managers.schedule_batch import FINISH_LENGTH, Req
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InitLoadBackParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.common import release_kv_cache
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, MLATokenToKVPool, ReqToTokenPool
from sglang.srt.mem_cache.storage.lmcache.lmcache_unified_radix_cache import LMCacheUnifiedRadixCache
from sglang.srt.mem_cache.unified_cache.components import ComponentType
from sglang.srt.runtime_context import get_context
from sglang.srt.sampling.sampling_params import SamplingParams

LAYERS, HEADS, HEAD, LATENT, ROPE = 3, 2, 16, 48, 16
SLOTS = 4096
PATIENCE_SECONDS = 60

get_context().override_server_args(device='cpu').install()


def config_file(url, **extra):
    """The file that `--lmcache-config-file` names."""
    host, port = url.removeprefix('tcp://').split(':')
    settings = {'lmcache.mp.mp_transfer_mode': 'engine_driven', 'lmcache.mp.mq_timeout': 20,
                'lmcache.mp.heartbeat_interval': 1, **extra}
    lines = [f'mp_host: {host}', f'mp_port: {port}', 'extra_config:']
    with tempfile.NamedTemporaryFile('w', suffix='.yaml', delete=False) as file:
        file.write('\n'.join(lines + [f'  {name}: {value}' for name, value in settings.items()]) + '\n')
    return file.name


def pool_of(kind, page, layers):
    common = dict(size=SLOTS, page_size=page, dtype=torch.bfloat16, layer_num=layers, device='cpu',
                  enable_memory_saver=False)
    if kind == 'mla':
        return MLATokenToKVPool(kv_lora_rank=LATENT, qk_rope_head_dim=ROPE, **common)
    values = {'v_head_dim': HEAD // 2} if kind == 'uneven' else {}
    return MHATokenToKVPool(head_num=HEADS, head_dim=HEAD, **values, **common)


class Server:
    """@param kind of attention: 'mha', 'mla', or 'uneven' for values of another width than keys."""

    def __init__(self, url, model, page=16, kind='mha', tp_size=1, tp_rank=0, tp_group=None, layers=LAYERS, **extra):
        self.page, self.is_mla, self.rank = page, kind == 'mla', tp_rank
        self.pool = pool_of(kind, page, layers)
        self.rows = ReqToTokenPool(size=16, max_context_len=SLOTS, device='cpu', enable_memory_saver=False)
        paged = (page,) if page > 1 else ()
        allocator = PagedTokenToKVPoolAllocator if page > 1 else TokenToKVPoolAllocator
        self.slots = allocator(SLOTS, *paged, torch.bfloat16, 'cpu', self.pool, False)
        params = CacheInitParams(disable=False, req_to_token_pool=self.rows, token_to_kv_pool_allocator=self.slots,
                                 page_size=page, tp_cache_group=tp_group, tree_components=(ComponentType.FULL,))
        arch = AttentionArch.MLA if self.is_mla else AttentionArch.MHA
        config = SimpleNamespace(model_path=model, attention_arch=arch, hf_config=SimpleNamespace(architectures=['Any']))
        self.cache = LMCacheUnifiedRadixCache(params, model_config=config, tp_size=tp_size, tp_rank=tp_rank,
                                              lmcache_config_file=config_file(url, **extra), forward_stream=None)
        self.connector = self.cache.lmcache_connector
        self.chunk = self.connector.chunk_size
        self.buffers = self.pool.kv_buffer if self.is_mla else [*self.pool.k_buffer, *self.pool.v_buffer]
        self.width = self.buffers[0][0].numel()

    def ask(self, rid, tokens, salt=None, extra=None):
        """A request arrives: its prompt is looked up."""
        req = Req(rid, '', array('q', tokens), SamplingParams(max_new_tokens=SLOTS), cache_salt=salt, extra_key=extra)
        req.init_next_round_input(self.cache, cow_mamba=False)
        matched, ids = req.prefix_len + req.host_hit_length, req.full_untruncated_fill_ids
        self.cache.prefetch_from_storage(req.cache_request_handle, req.last_host_node,
                                         ids[matched:req._compute_max_prefix_len(len(ids))],
                                         matched_prefix_tokens=ids[:matched], extra_key=extra, cache_salt=salt)
        return req

    def answer(self, req):
        """Polls for the answer, as on every turn of the scheduler."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not self.cache.check_prefetch_progress(req.cache_request_handle):
            assert time.monotonic() < until, 'the lookup never came to an end'
            time.sleep(0.002)

    def admit(self, req):
        """The prompt runs: `req.resident` tokens were in the tree, `req.loaded` come from the engine."""
        req.init_next_round_input(self.cache)
        req.resident, req.loaded = req.prefix_len, 0
        if req.host_hit_length > 0:
            load = InitLoadBackParams(best_match_node=req.best_match_node, host_hit_length=req.host_hit_length, req=req)
            req.loaded, req.last_node = self.cache.init_load_back(load)
            req.prefix_len += req.loaded
        req.lock = self.cache.lock(req.last_node)
        known = self.cache.prefix_device_indices(req) if req.prefix_len > 0 else torch.empty(0, dtype=torch.int64)
        self.rows.alloc([req])
        self.rows.write((req.kv.req_pool_idx, slice(0, len(known))), known.to(torch.int32))
        self.extend(req, req.prefix_len)

    def extend(self, req, begin):
        """KV of the tokens from `begin` on, which is where a page begins."""
        tokens = req.full_untruncated_fill_ids
        pages = -(-(len(tokens) - begin) // self.page)
        slots = self.slots.alloc(pages * self.page)[:len(tokens) - begin]
        self.rows.write((req.kv.req_pool_idx, slice(begin, len(tokens))), slots.to(torch.int32))
        req.kv.kv_allocated_len = req.kv.kv_committed_len = len(tokens)
        for rows, plane in zip(self.bits, self.expected(req), strict=True):
            rows[slots] = plane[begin:]
        self.check(req)

    def decode(self, req, tokens):
        """The answer's tokens; the prompt fills whole pages."""
        begin = len(req.full_untruncated_fill_ids)
        req.output_ids.extend(tokens)
        req.refresh_fill_ids()
        self.extend(req, begin)

    def finish(self, req):
        """The request is done: its KV goes to the tree, and from there to the engine."""
        req.finished_reason = FINISH_LENGTH(length=len(req.output_ids))
        release_kv_cache(req, self.cache, checkpoint=True)
        self.settle(req.rid)

    def settle(self, rid):
        """Turns of the scheduler until nothing of a request is under way."""
        until = time.monotonic() + PATIENCE_SECONDS
        while rid in self.cache._external_flows or rid in self.cache._pending_store_counts:
            self.cache.check_hicache_events()
            assert time.monotonic() < until, 'a transfer never came to an end'
            time.sleep(0.001)

    def run(self, rid, tokens, salt=None, extra=None):
        """A whole request. @returns tokens that the tree had, and tokens that came from the engine."""
        req = self.ask(rid, tokens, salt, extra)
        self.answer(req)
        self.admit(req)
        self.finish(req)
        return [req.resident, req.loaded]

    def forget(self, tokens=SLOTS):
        """Evicts from the tree. All of it: no slot may be held, and what they held is gone."""
        self.cache.evict(EvictParams(num_tokens=tokens))
        if tokens < SLOTS:
            return
        assert self.slots.available_size() == SLOTS, f'{SLOTS - self.slots.available_size()} slots are still held'
        for buffer in self.buffers:
            buffer.zero_()

    def close(self):
        self.cache.shutdown()

    @property
    def bits(self):
        return [buffer.view(torch.int16).reshape(len(buffer), -1) for buffer in self.buffers]

    def expected(self, req):
        seed = f'{req.cache_salt} {req.extra_key} {0 if self.is_mla else self.rank}'
        return kv_of(req.full_untruncated_fill_ids, len(self.buffers), self.width, seed)

    def check(self, req):
        """Every byte of a request's KV, resident, loaded or computed."""
        tokens = req.full_untruncated_fill_ids
        slots = self.rows.req_to_token[req.kv.req_pool_idx, :len(tokens)].to(torch.int64)
        for plane, (rows, expected) in enumerate(zip(self.bits, self.expected(req), strict=True)):
            assert torch.equal(rows[slots], expected), f'{req.rid}: plane {plane} holds other bytes'


def kv_of(tokens, planes, width, seed):
    """[plane][token, number of 16 bits]: each depends on all tokens up to its own."""
    state, states = sum(seed.encode()) + 1, []
    for token in tokens:
        state = (state * 6364136223846793005 + token + 1442695040888963407) % 2**63
        states.append(state)
    base = torch.tensor(states, dtype=torch.int64)[None, :, None]
    plane = torch.arange(planes)[:, None, None] * 0x9E3779B97F4A7C1
    mixed = (base ^ plane) * 0x2545F4914F6CDD1D + torch.arange(width)[None, None, :] * 0x5851F42D4C957F2D
    return ((mixed ^ (mixed >> 31)) >> 13).to(torch.int16)


def prompt(seed, tokens):
    return torch.randint(3, 128_000, (tokens,), generator=torch.Generator().manual_seed(seed)).tolist()
